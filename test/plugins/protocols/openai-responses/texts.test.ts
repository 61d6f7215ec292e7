import { isDeepStrictEqual } from "node:util";
import t from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { opaque, texts } from "../../../../plugins/protocols/openai-responses/texts.ts";
import type { TextPlace } from "../../../../src/core/protocol.ts";
import { Envelopes } from "../../../../src/translation/envelope.ts";
import { removeUnreadable } from "../../../../src/translation/unreadable.ts";
import { type JsonPath, pathEdits } from "../../../../src/wire/paths.ts";
import { splice } from "../../../../src/wire/splice.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { dice } from "../../../support/dice.ts";
import { valueAt } from "../../../support/locate-paths.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { wronged } from "../../../support/wrong-values.ts";
import { recordedRequests } from "./requests.ts";

const answers = recorded("openai-responses").filter(
  ({ id, status }) => status === 200 && !/azure-deepseek-reasoning/.test(id),
);
const isStream = (body: string): boolean => /^\s*(?:event|data|:)/.test(body);
const skip = answers.length === 0 && "the recordings are absent";

const found = (json: unknown, places: Iterable<TextPlace>): string[] =>
  [...places].map(({ path, kind, json: text }) => `${kind}${text ? " json" : ""}: ${valueAt(json, path)}`);

t.test("the texts of a request are listed by role", async (t) => {
  const body = {
    model: "any",
    instructions: "S1",
    prompt: { id: "p", variables: { name: "U1", more: { type: "input_text", text: "U2" }, image: { file_id: "f" } } },
    input: [
      { role: "developer", content: "S2" },
      { type: "message", role: "user", content: [{ type: "input_text", text: "U3" }, { type: "input_image" }] },
      {
        role: "assistant",
        content: [
          { type: "output_text", text: "A1" },
          { type: "refusal", refusal: "A2" },
        ],
      },
      {
        type: "reasoning",
        summary: [{ type: "summary_text", text: "R1" }],
        content: [{ type: "reasoning_text", text: "R2" }],
        encrypted_content: "gAAAA",
      },
      { type: "function_call", call_id: "c", name: "f", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c", output: "O1" },
      { type: "custom_tool_call", call_id: "d", name: "g", input: "ls" },
      { type: "custom_tool_call_output", call_id: "d", output: [{ type: "input_text", text: "O2" }] },
      { type: "mcp_call", name: "h", arguments: "{}", output: "O3" },
      { type: "web_search_call", action: { type: "search", query: "Q1", queries: ["Q2"] } },
      { type: "shell_call_output", output: [{ stdout: "O4", stderr: "O5" }] },
      { type: "never_heard_of", text: "?" },
      { type: "constructor", text: "?" },
    ],
  };
  t.same(found(body, texts.request(body)), [
    ...["system: S1", "system: S2", "user: U3", "assistant: A1", "assistant: A2", "reasoning: R1", "reasoning: R2"],
    ...['tool_call json: {"a":1}', "tool_result: O1", "tool_call: ls", "tool_result: O2"],
    ...[
      "tool_call json: {}",
      "tool_result: O3",
      "tool_call: Q1",
      "tool_call: Q2",
      "tool_result: O4",
      "tool_result: O5",
    ],
    ...["user: U1", "user: U2"],
  ]);
  t.same(found({ input: "Hi" }, texts.request({ input: "Hi" })), ["user: Hi"]);
  t.same(protocol.texts, texts);
});

t.test("requests and answers of any values are searched", async (t) => {
  const { body } = CLIENT_BODIES["openai-responses"];
  for (const json of [undefined, null, 5, "x", [], {}, { input: [null, 5, [], "x"] }, { output: {} }, { item: null }])
    t.same([...texts.request(json), ...texts.response(json)], []);
  for (let seed = 0; seed < 200; seed++) {
    const json = wronged(JSON.parse(body), dice(seed));
    for (const { path } of texts.request(json)) if (typeof valueAt(json, path) !== "string") t.fail(`seed ${seed}`);
    for (const { path } of opaque.find((json ?? {}) as JsonObject))
      if (typeof valueAt(json, path) !== "string") t.fail(`seed ${seed}`);
  }
});

/** The texts of a stream by the names of their pieces, in the order in which they began; and those that are whole. */
function streamed(body: string) {
  const pieces = new Map<string, { kind: string; text: string }>();
  const last: string[] = [];
  for (const frame of eventsIn(body)) {
    if (frame.text === undefined || frame.text === "[DONE]") continue;
    const json = frame.json() as JsonObject;
    for (const { path, kind, piece } of texts.response(json)) {
      const text = valueAt(json, path);
      if (piece === undefined) {
        if (path[0] === "response" && /completed|incomplete/.test(String(json["type"]))) last.push(`${kind}: ${text}`);
      } else pieces.set(piece, { kind, text: (pieces.get(piece)?.text ?? "") + text });
    }
  }
  return { pieces: [...pieces.values()].map(({ kind, text }) => `${kind}: ${text}`), whole: last };
}

/** These hold several responses, one after the other. */
const SEVERAL = /reasoning-encrypted-content\.1\.stream/;

t.test(
  "the deltas of every recorded stream, joined by their names, are the texts of its last event",
  { skip },
  async (t) => {
    const odd: string[] = [];
    let count = 0;
    for (const { id, body } of answers) {
      if (!isStream(body) || SEVERAL.test(id)) continue;
      const { pieces, whole } = streamed(body);
      odd.push(
        ...pieces.filter((piece) => whole.length > 0 && !whole.includes(piece)).map((piece) => `${id}: ${piece}`),
      );
      if (pieces.length > 0) count++;
    }
    t.same(odd, []);
    t.ok(count > 70, `${count} streams`);
  },
);

t.test("every text that the vendor's deltas extend has a name", { skip }, async (t) => {
  const grown = new Set<unknown>();
  for (const { body } of answers.filter((each) => isStream(each.body)))
    for (const frame of eventsIn(body)) {
      if (frame.text === undefined || frame.text === "[DONE]") continue;
      const json = frame.json() as JsonObject;
      if (typeof json["delta"] === "string" && [...texts.response(json)].length === 0) grown.add(json["type"]);
    }
  t.same([...grown], []);
});

t.test("a repeated whole text is no piece, and each text has a name of its own", async (t) => {
  const at = { output_index: 1, content_index: 2 };
  const events: [JsonObject, string[]][] = [
    [{ type: "response.output_text.delta", ...at, delta: "Hel" }, ["assistant 1 output_text 2"]],
    [{ type: "response.refusal.delta", ...at, delta: "N" }, ["assistant 1 refusal 2"]],
    [
      { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 1, delta: "R" },
      ["reasoning 0 reasoning_summary_text 1"],
    ],
    [
      { type: "response.function_call_arguments.delta", output_index: 3, delta: "{" },
      ["tool_call 3 function_call_arguments 0"],
    ],
    [
      { type: "response.function_call_arguments.delta", item_id: "fc_1", delta: "{" },
      ["tool_call fc_1 function_call_arguments 0"],
    ],
    [{ type: "response.output_text.done", ...at, text: "Hello" }, ["assistant"]],
    [{ type: "response.content_part.done", ...at, part: { type: "output_text", text: "Hello" } }, ["assistant"]],
    [{ type: "response.content_part.done", ...at, part: { type: "reasoning_text", text: "R" } }, ["reasoning"]],
    [{ type: "response.reasoning_summary_part.done", part: { type: "summary_text", text: "R" } }, ["reasoning"]],
    [{ type: "response.custom_tool_call_input.done", input: "ls" }, ["tool_call"]],
    [{ type: "response.output_item.done", item: { type: "function_call", arguments: "{}" } }, ["tool_call"]],
    [{ type: "response.created", response: { instructions: "S", output: [] } }, ["system"]],
    [{ type: "error", message: "no" }, []],
  ];
  for (const [event, expected] of events)
    t.same(
      [...texts.response(event)].map(({ kind, piece }) => (piece === undefined ? kind : `${kind} ${piece}`)),
      expected,
      String(event["type"]),
    );
});

t.test("a text of any request or answer can be changed, and all other bytes stay", { skip }, async (t) => {
  const bodies: [string, Iterable<TextPlace>][] = [
    ...recordedRequests().map(([, body]): [string, Iterable<TextPlace>] => [
      JSON.stringify(body, undefined, 1),
      texts.request(body),
    ]),
    ...answers
      .filter(({ body }) => !isStream(body))
      .map(({ body }): [string, Iterable<TextPlace>] => [body, texts.response(JSON.parse(body))]),
  ];
  const wrong: string[] = [];
  for (const [text, places] of bodies) {
    const bytes = Buffer.from(text);
    const replace = [...places].map(({ path }): [JsonPath, string] => [path, '"⁂"']);
    const changed = Buffer.concat(splice([bytes], pathEdits(bytes, { replace }))).toString();
    const [before, after] = [JSON.parse(text), JSON.parse(changed)];
    const back = replace.map(([path]): [JsonPath, string] => [path, JSON.stringify(valueAt(before, path))]);
    const restored = splice([Buffer.from(changed)], pathEdits(Buffer.from(changed), { replace: back }));
    const all = replace.every(([path]) => valueAt(after, path) === "⁂");
    if (!all || !isDeepStrictEqual(JSON.parse(Buffer.concat(restored).toString()), before)) wrong.push(text);
  }
  t.same(wrong, []);
});

const envelopes = new Envelopes("a secret of this test");
const state = { account: "them", kind: "signature", data: "c2ln" };
const foreign = envelopes.seal({ ...state, protocol: "other" });
const onCall = envelopes.seal({ ...state, protocol: "other", on: { call: "c1" } });
const own = envelopes.seal({ ...state, protocol: "openai-responses", account: "us", kind: "encrypted" });
const summary = envelopes.seal({ protocol: "gateway", kind: "summary", data: "They said hi." });

function cleaned(text: string, strict = false) {
  const to = { protocol, account: "us", model: "theirs", facts: {} };
  const bytes = Buffer.from(text);
  const { edits, losses } = removeUnreadable(bytes, JSON.parse(text), envelopes, to, strict);
  return { text: Buffer.concat(splice([bytes], edits)).toString(), losses };
}

t.test("a conversation that other providers took part in loses their state, and no other byte", async (t) => {
  const item = (type: string, state: string) =>
    `{ "type":"${type}", "id":"x", "summary": [], "encrypted_content":"${state}"}`;
  const call = '{"type":"function_call","call_id":"c1","name":"f","arguments":"{}","big":12345678901234567890}';
  const request = (items: string[]) => `{"input": [ ${items.join(", ")} ],\n "unheard_of":{"deep":[1.0, null]}}`;
  const { text, losses } = cleaned(
    request(['{"role":"user"}', item("reasoning", foreign), item("reasoning", own), item("reasoning", onCall), call]),
  );
  t.equal(text, request(['{"role":"user"}', item("reasoning", "c2ln"), call]));
  t.match(losses, { dropped: { length: 0 }, notices: [/another provider/] });
  for (const theirs of ["gAAAA", "", "gw2.x"]) {
    const untouched = request([item("reasoning", theirs), item("compaction", theirs), item("odd", foreign)]);
    t.equal(cleaned(untouched, true).text, untouched);
  }
  t.throws(() => cleaned(request([item("reasoning", foreign)]), true), { code: "not_translatable", param: "input.0" });
});

t.test("a compaction that was made as text is returned as text, and nothing else is one", async (t) => {
  const compaction = (state: string) =>
    `{"input":[{"type":"compaction","id":"cmp_1","encrypted_content":"${state}"},1.0]}`;
  const content = "Summary of the conversation so far:\n\nThey said hi.";
  const message = JSON.stringify({ type: "message", role: "user", content });
  t.equal(cleaned(compaction(summary), true).text, `{"input":[${message},1.0]}`);
  for (const envelope of [own, foreign])
    t.throws(() => cleaned(compaction(envelope)), { code: "invalid_field", param: "input.0.encrypted_content" });
});

t.test(
  "every recorded request with an envelope in every possible place loses its items and nothing else",
  { skip },
  async (t) => {
    let count = 0;
    for (const [name, body] of recordedRequests()) {
      const places = [...opaque.find(body)].filter(({ replacement }) => !replacement);
      if (places.length === 0) continue;
      count++;
      const plain = Buffer.from(JSON.stringify(body, undefined, 1));
      const replace = places.map(({ path }): [JsonPath, string] => [path, JSON.stringify(foreign)]);
      const bearing = Buffer.concat(splice([plain], pathEdits(plain, { replace }))).toString();
      const remove = places.map(({ span }) => span);
      const expected = Buffer.concat(splice([plain], pathEdits(plain, { remove }))).toString();
      t.equal(cleaned(bearing).text, expected, name);
    }
    t.ok(count > 10, `${count} requests`);
  },
);
