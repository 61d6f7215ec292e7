/** Compactions over providers that have none: asked for, told, and gone on from, by the vendor's own SDK over sockets. */

import OpenAI from "openai";
import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { type ChecklistGateway, gateway, speaking } from "../support/checklist.ts";
import { asking, KEY } from "../support/key.ts";
import { askedIn, SCRIPTS, TEXT, THOUGHT, THOUGHTFUL, TOKENS } from "../support/scripted.ts";
import { faultsOf } from "../support/vendor-rules.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import { at, candidate, listAt } from "./sharp-cases.ts";
import { events, streaming } from "./sharp-http.ts";

const OTHERS = PROTOCOLS.filter((name) => name !== "openai-responses");

const trigger = { type: "compaction_trigger" } as const;
const developer = { role: "developer", content: "You are an agent." } as const;
const user = { role: "user", content: "Read a.txt." } as const;
const history: OpenAI.Responses.ResponseInputItem[] = [
  developer,
  user,
  { type: "function_call", call_id: "c1", name: "read", arguments: '{"path":"a.txt"}' },
  { type: "function_call_output", call_id: "c1", output: "the file" },
];
const ASK = {
  store: false,
  parallel_tool_calls: true,
  tool_choice: "auto",
  include: ["reasoning.encrypted_content"],
  tools: [
    {
      type: "function",
      name: "read",
      strict: false,
      parameters: { type: "object", properties: { path: { type: "string" } } },
    },
  ],
} satisfies Partial<OpenAI.Responses.ResponseCreateParams>;

/** Where each vendor reads its tools, the choice among them, and the last text of the user. */
const WHERE: Record<ProtocolName, { tool: string; choice: [path: string, none: unknown]; last: string }> = {
  "openai-chat": { tool: "tools.0.function.name", choice: ["tool_choice", "none"], last: "messages.-1.content" },
  "openai-responses": { tool: "tools.0.name", choice: ["tool_choice", "none"], last: "input.-1.content" },
  "anthropic-messages": {
    tool: "tools.0.name",
    choice: ["tool_choice", { type: "none" }],
    last: "messages.-1.content.-1.text",
  },
  gemini: {
    tool: "tools.0.functionDeclarations.0.name",
    choice: ["toolConfig.functionCallingConfig.mode", "NONE"],
    last: "contents.-1.parts.-1.text",
  },
};

const sdkOf = ({ running }: ChecklistGateway): OpenAI =>
  new OpenAI({ baseURL: `${running.url}/v1`, apiKey: KEY, maxRetries: 0, defaultHeaders: asking() });
const bodyFor = (vendor: ProtocolName, input: readonly unknown[], stream = false): JsonObject => ({
  model: `of-${vendor}`,
  stream,
  ...ASK,
  input,
});
const sentText = ({ upstream }: ChecklistGateway): string => upstream.seen.at(-1)?.body.toString() ?? "";

/** A compaction of the history over one vendor. */
async function compacted(
  gate: ChecklistGateway,
  vendor: ProtocolName,
  stream: boolean,
): Promise<OpenAI.Responses.Response> {
  const { responses } = sdkOf(gate);
  const body = { ...ASK, model: `of-${vendor}`, input: [...history, trigger] };
  return stream ? responses.stream(body).finalResponse() : responses.create(body);
}

t.test("a compaction is requested by a prompt, answered as one item, and sent back as text", async (t) => {
  const gate = await gateway(t);
  const sealed = new Set<unknown>();
  for (const vendor of OTHERS)
    for (const stream of [false, true]) {
      const name = `${vendor}, ${stream ? "streamed" : "whole"}`;
      const answer = await compacted(gate, vendor, stream);
      const { tool, choice, last } = WHERE[vendor];
      const sent = gate.sent();
      t.same(faultsOf(vendor, sentText(gate)), [], `${name}: the vendor accepts it`);
      t.equal(at(sent, tool), "read", `${name}: tools stay, for the calls before and for the cache`);
      t.same(at(sent, choice[0]), choice[1], `${name}: none of them may be called`);
      t.match(at(sent, last), /^Sum up the conversation so far/, `${name}: last of all`);
      t.match(sentText(gate), /You are an agent.*Read a\.txt.*the file.*Sum up/s, name);

      t.equal(answer.status, "completed");
      t.same(Object.keys(answer.output[0] ?? {}).sort(), ["encrypted_content", "id", "type"]);
      t.equal(answer.output.length, 1);
      t.match(answer.output, [{ type: "compaction", id: /^cmp_/, encrypted_content: /^gw1state/ }], name);
      t.match(answer.usage, { input_tokens: TOKENS.in, output_tokens: TOKENS.out }, `${name}: usage passes`);
      sealed.add(at(answer, "output.0.encrypted_content"));

      const next = [developer, user, ...answer.output, { role: "user", content: "Go on." }];
      for (const reader of PROTOCOLS) {
        const strict = { "gateway-strict": "1" };
        const { headers } = await gate.fine("/v1/responses", bodyFor(reader, next, stream), strict);
        const told = sentText(gate);
        t.same(faultsOf(reader, told), [], `${name} → ${reader}`);
        t.match(
          told.replaceAll("\\n", "\n"),
          new RegExp(`Read a\\.txt.*Summary of the conversation so far:\n\n${TEXT}.*Go on`, "s"),
          `${name} → ${reader}: the next target reads it, in its place`,
        );
        t.notMatch(told, /gw1state|compaction/, reader);
        t.notOk(headers.has("gateway-notice"), "nothing of it is lost");
      }
    }
  t.equal(sealed.size, 1, "the same summary is the same envelope: what follows stays cached");
});

t.test("reasoning before a summary is not part of it", async (t) => {
  const gate = await gateway(t);
  gate.answer((reply, request) => {
    const answer = JSON.stringify(THOUGHTFUL[askedIn(request).vendor]);
    reply.setHeader("content-type", "application/json").end(answer);
  });
  for (const vendor of OTHERS) {
    const { output } = await compacted(gate, vendor, false);
    t.match(output, [{ type: "compaction" }], vendor);
    t.equal(output.length, 1);
    await gate.fine("/v1/responses", bodyFor(vendor, [...output, user]));
    t.match(sentText(gate), `far:\\n\\n${TEXT}"`, vendor);
    t.notMatch(sentText(gate), THOUGHT, vendor);
  }
});

t.test("the change is declared, and refused in strict mode", async (t) => {
  const gate = await gateway(t);
  const input = [...history, trigger];
  for (const vendor of OTHERS) {
    const { headers } = await gate.fine("/v1/responses", bodyFor(vendor, input));
    t.match(headers.get("gateway-notice"), /^input\.4: a compaction is requested by a prompt/, vendor);
    t.notOk(headers.has("gateway-dropped"));
    const refused = await gate.post("/v1/responses", bodyFor(vendor, input), { "gateway-strict": "1" });
    t.equal(refused.status, 400);
    t.match(await refused.json(), { error: { param: "input.4", code: "not_translatable" } }, vendor);
  }
});

t.test("an answer without a summary is an error, and so is an interrupted one", async (t) => {
  const gate = await gateway(t);
  const input = [...history, trigger];
  const error = { error: { code: "upstream_invalid", message: /contains no summary/ } };
  for (const vendor of OTHERS) {
    gate.answer(speaking("call"));
    const whole = await gate.post("/v1/responses", bodyFor(vendor, input));
    t.equal(whole.status, 502, vendor);
    t.match(await whole.json(), error, vendor);
    const frames = SCRIPTS[vendor].frames("text");
    for (const stream of [SCRIPTS[vendor].frames("call"), frames.slice(0, vendor === "openai-chat" ? -3 : -1)]) {
      gate.answer(streaming(stream.join("")));
      const { text, cut } = await gate.ask("openai-responses", vendor, { body: bodyFor(vendor, input, true) });
      t.ok(cut, `${vendor}: the stream is interrupted`);
      t.match(text, /event: response\.failed\n.*event: error\n/s, vendor);
      t.notMatch(text, /output_item|response\.completed|gw1state/, vendor);
    }
  }
});

t.test("a truncated summary is incomplete, also before any text of it", async (t) => {
  const gate = await gateway(t);
  const thoughts = candidate([{ text: "Hm.", thought: true }], "MAX_TOKENS");
  const words = candidate([{ text: "They said" }], "MAX_TOKENS");
  for (const [answer, items] of [
    [thoughts, 0],
    [words, 1],
  ] as const) {
    gate.answer((reply) => reply.setHeader("content-type", "application/json").end(JSON.stringify(answer)));
    const { status, incomplete_details, output } = await compacted(gate, "gemini", false);
    t.same([status, incomplete_details, output.length], ["incomplete", { reason: "max_output_tokens" }, items]);
  }
});

t.test("within one protocol every byte stays, and a vendor's own compaction is sent to no other vendor", async (t) => {
  const gate = await gateway(t, "share: all\n");
  const own = { type: "compaction", id: "cmp_1", encrypted_content: "gAAAAA==" };
  for (const input of [
    [...history, trigger],
    [developer, own, user],
    [trigger, user],
    [{ id: "msg_1" }, user],
  ]) {
    const body = JSON.stringify(bodyFor("openai-responses", input), null, 1);
    await gate.fine("/v1/responses", body);
    t.equal(sentText(gate), body.replace('"of-openai-responses"', '"any"'));
  }
  for (const vendor of OTHERS) {
    const refused = await gate.post("/v1/responses", bodyFor(vendor, [developer, own, user]));
    t.match(await refused.json(), { error: { param: "input.1", code: "not_translatable" } }, vendor);
    const early = await gate.post("/v1/responses", bodyFor(vendor, [trigger, user]));
    t.match(await early.json(), { error: { param: "input.0", message: /must be the last item/ } }, vendor);
  }
});

t.test("a compaction that was not sealed here is refused, whichever target would read it", async (t) => {
  const gate = await gateway(t);
  const { output } = await compacted(gate, "gemini", false);
  const sealed = String(at(output, "0.encrypted_content"));
  const changed = `${sealed.slice(0, 30)}${sealed[30] === "A" ? "B" : "A"}${sealed.slice(31)}`;
  for (const vendor of PROTOCOLS)
    for (const encrypted_content of [changed, sealed.slice(0, -8), "gw1stateAAAA"]) {
      const response = await gate.post(
        "/v1/responses",
        bodyFor(vendor, [{ type: "compaction", encrypted_content }, user]),
      );
      t.equal(response.status, 400, vendor);
      t.match(await response.json(), { error: { message: /did not make for this key, or that was changed/ } });
    }
  const asReasoning = [
    user,
    { type: "reasoning", summary: [], encrypted_content: sealed },
    { role: "assistant", content: "Hi" },
    user,
  ];
  for (const vendor of PROTOCOLS) {
    await gate.fine("/v1/responses", bodyFor(vendor, asReasoning));
    t.notMatch(sentText(gate), new RegExp(`gw1state|${TEXT}`), `${vendor}: it is not reasoning`);
  }
});

t.test("the events of a streamed compaction are those of the vendor's own grammar", async (t) => {
  const gate = await gateway(t);
  for (const vendor of OTHERS) {
    const response = await gate.fine("/v1/responses", bodyFor(vendor, [...history, trigger], true));
    const told = events(await response.text());
    t.same(
      told.map(({ type, sequence_number }) => [type, sequence_number]),
      ["created", "in_progress", "output_item.added", "output_item.done", "completed"].map((type, i) => [
        `response.${type}`,
        i,
      ]),
      vendor,
    );
    t.same(listAt(told.at(-1), "response.output"), [told[3]?.["item"]]);
  }
});
