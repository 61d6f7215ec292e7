import t from "tap";
import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../src/core/body.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { EventMemberExtractor, MemberExtractor } from "../../src/objects/member-extractor.ts";
import { Frame } from "../../src/wire/frame.ts";
import type { JsonObject } from "../../src/wire/values.ts";

t.test("members are extracted as soon as they are complete, wherever the text is split", async (t) => {
  const text = Buffer.from('{"id":"resp_1","noise":[{"id":"no"}],"output":[{"id":"rs_1"}],"id2":1}');
  for (let cut = 0; cut <= text.length; cut++) {
    const members = new MemberExtractor(["id", "output"]);
    const first = members.push(text.subarray(0, cut)) ?? {};
    const second = members.push(text.subarray(cut)) ?? {};
    if (cut > 16) t.match(first, { id: "resp_1" });
    t.same({ ...first, ...second }, { id: "resp_1", output: [{ id: "rs_1" }] });
    t.same(
      Object.keys(first).filter((name) => name in second),
      [],
      "each once",
    );
  }
});

t.test("from invalid JSON the members before the error are extracted", async (t) => {
  const members = new MemberExtractor(["id"]);
  t.same(members.push(Buffer.from('{"id":"a",} nonsense')), { id: "a" });
  t.equal(members.push(Buffer.from("more")), undefined);
});

t.test("members behind any names and deep values are extracted", async (t) => {
  const members = new MemberExtractor(["id"]);
  const deep = `${"[".repeat(5000)}${"]".repeat(5000)}`;
  t.same(members.push(Buffer.from(`{"\\ud800":{},"tools":${deep},"id":"a"}`)), { id: "a" });
});

const made = ({ objects }: Protocol, json: JsonObject, request = "{}") => [
  ...(objects?.createdIds(json, new Body([Buffer.from(request)], "json")) ?? []),
];

t.test("each protocol extracts the ids of created objects", async (t) => {
  const output = [{ id: "rs_1" }, { id: "ci_1", container_id: "cntr_1" }];
  t.same(made(responses, { id: "resp_1", conversation: { id: "conv_1" }, output }), [
    ...["conv_1", "resp_1", "rs_1", "ci_1", "cntr_1"],
  ]);
  t.same(made(responses, { id: "resp_1", output }, '{"store":false}'), ["cntr_1"]);
  t.same(made(responses, { item: { id: "rs_1" } }), ["rs_1"]);
  t.same(made(chat, { id: "chatcmpl-1", choices: [{ message: { audio: { id: "audio_1" } } }] }), ["audio_1"]);
  t.same(made(chat, { id: "chatcmpl-1", choices: [] }, '{"store":true}'), ["chatcmpl-1"]);
  const result = { type: "bash_code_execution_tool_result", content: { content: [{ file_id: "file_1" }] } };
  t.same(made(anthropic, { container: { id: "container_1" }, content: [result] }), ["container_1", "file_1"]);
  t.same(made(anthropic, { content_block: result }), ["file_1"]);
});

t.test("a frame is parsed where it contains such a member, in any spelling of events", async (t) => {
  const tells = ({ objects }: Protocol, text: string) => objects?.mayHoldIds(new Frame("event", Buffer.from(text)));
  t.ok(tells(responses, 'event: response.created\ndata: {"type":"response.created"}\n\n'));
  t.ok(tells(responses, 'data: {"type":"response.output_item.done"}\n\n'));
  t.notOk(tells(responses, 'event: response.output_text.delta\ndata: {"delta":"response.created"}\n\n'));
  t.ok(tells(anthropic, 'event: message_start\ndata: {"message":{"container":{"id":"c"}}}\n\n'));
  t.notOk(tells(anthropic, 'event: message_delta\ndata: {"delta":{"container":null}}\n\n'));
});

t.test("requests that can create nothing are recognised by their top level", async (t) => {
  const makes = ({ objects }: Protocol, request: string) =>
    objects?.createsObjects?.(new Body([Buffer.from(request)], "json")) ?? false;
  t.notOk(makes(chat, '{"messages":[]}'));
  t.ok(makes(chat, '{"store":true}'));
  t.ok(makes(chat, '{"audio":{}}'));
  t.notOk(makes(anthropic, '{"tools":[{"name":"x"}]}'));
  t.ok(makes(anthropic, '{"tools":[{"type":"code_execution_20250825"}]}'));
  t.ok(makes(anthropic, '{"container":"c"}'));
});

t.test(
  "the first events of a stream contain the created ids, which are extracted once, and not those quoted in them",
  async (t) => {
    const event = (json: object) => `data: ${JSON.stringify(json)}\n\n`;
    const stream = [
      ": a comment\n\ndata: 7\n\n",
      event({ type: "interaction.created", interaction: { id: "int_1", object: { id: "no" } } }),
      event({ delta: { name: "file-of-others", id: "no" }, id: "int_2" }),
    ].join("");
    for (const step of [1, 7, stream.length]) {
      const events = new EventMemberExtractor(["id", "name"]);
      const found = [];
      for (let at = 0; at < stream.length; at += step) {
        const members = events.push(Buffer.from(stream.slice(at, at + step)));
        if (members) found.push(members);
      }
      t.same(found, [{ id: "int_1" }], `${step} bytes at a time`);
    }
    const late = new EventMemberExtractor(["id"]);
    t.equal(late.push(Buffer.from(event({}).repeat(8) + event({ id: "late" }))), undefined);
    t.equal(late.push(Buffer.from(event({ id: "later" }))), undefined);
  },
);
