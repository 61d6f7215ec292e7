import t from "tap";
import { encode } from "../../../../plugins/protocols/gemini/request.encode.ts";
import { FATES, FIELDS } from "../../../../plugins/protocols/gemini/support.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import type { Conversation, Part } from "../../../../src/translation/conversation.ts";
import { joined } from "../../../../src/translation/turns.ts";
import { CLIENT_BODIES } from "../../../support/client-bodies.ts";
import { dice } from "../../../support/random-answers.ts";
import { exactly, withUnheardOf } from "../unheard-of.ts";
import { read, recordedRequests, terms } from "./request.asked.ts";

const recorded = recordedRequests();
const skip = recorded.length === 0 && "no recordings";

t.test("every recorded request, read and written again, is the same", { skip }, async (t) => {
  t.ok(recorded.length > 350);
  for (const { id, task, model, body } of recorded) {
    const { terms: given, told } = terms({}, model);
    const { body: again } = encode(read(body, { task, native: true }), given);
    t.strictSame(JSON.parse(again), body, id);
    t.same(told, { dropped: [], changed: [] }, id);
  }
});

const blob = { mimeType: "image/png", data: "_-8" };
const UNRECORDED: unknown[] = [
  { systemInstruction: "Be terse.", contents: [] },
  { contents: [{ role: "function", parts: [{ text: "x", thought: false, partMetadata: { a: 1 } }], own: 1 }] },
  {
    contents: [
      { parts: [{ inlineData: { ...blob, displayName: "a" }, mediaResolution: { level: "media_resolution_low" } }] },
    ],
  },
  {
    contents: [
      { parts: [{ inlineData: blob, thoughtSignature: "c2ln", thought: true }, { thoughtSignature: "c2ln" }] },
    ],
  },
  { contents: [], service_tier: "STANDARD", store: true, labels: { a_b: "c", "d-E": "f" }, model: "models/x" },
  {
    contents: [],
    serviceTier: "flex",
    toolConfig: { functionCallingConfig: { mode: "NONE", allowedFunctionNames: ["f"] } },
  },
  {
    contents: [],
    serviceTier: "unspecified",
    generationConfig: { responseMimeType: "text/x.enum", responseSchema: { type: "STRING" } },
  },
  {
    contents: [],
    generationConfig: { seed: "7", mediaResolution: "MEDIA_RESOLUTION_LOW", responseModalities: ["text", "IMAGE"] },
  },
  {
    contents: [],
    generationConfig: { responseLogprobs: true, logprobs: 0, responseMimeType: "text/plain", top_k: null },
  },
  {
    contents: [],
    generationConfig: { responseLogprobs: false, thinkingConfig: { thinkingLevel: "THINKING_LEVEL_UNSPECIFIED" } },
  },
  {
    contents: [],
    tools: [{ functionDeclarations: [] }, { googleSearchRetrieval: {}, newTool: { a: 1 } }, {}],
    toolConfig: {},
  },
  {
    contents: [
      {
        role: "model",
        parts: [{ functionCall: { id: "f", name: "f" } }, { functionCall: { id: "f", name: "f", args: null } }],
      },
      { role: "user", parts: [{ functionResponse: { id: "f", name: "f", response: { output: 1.5 } } }] },
      {
        role: "user",
        parts: [{ functionResponse: { id: "another", name: "f", response: { error: { a: 1 } }, scheduling: "IDLE" } }],
      },
    ],
  },
];

t.test("so is what nobody recorded", async (t) => {
  for (const body of UNRECORDED)
    t.same(
      JSON.parse(encode(read(body, { native: true }), terms().terms).body),
      body,
      JSON.stringify(body).slice(0, 90),
    );
});

/** A request in this protocol, read and written again. */
const again = (text: string, task: "generate" | "count" = "generate", model?: string): string =>
  encode(read(text, { task, native: true }), terms({}, model).terms).body;

t.test("words and numbers that only a later version of the protocol has are the same, too", async (t) => {
  const texts = [
    '{"contents":[],"generationConfig":{"temperature":12345678901234567890,"seed":12345678901234567890,"topK":"40"}}',
    '{"contents":[],"generationConfig":{"thinkingConfig":{"thinkingLevel":"EXTREME"},"responseModalities":["SMELL"]}}',
    '{"contents":[],"generationConfig":{"thinking_config":{"thinking_level":"LOW","thinking_budget":7}}}',
    '{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"OFTEN","allowedFunctionNames":["f"]}}}',
    '{"contents":[],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":[]}}}',
    '{"contents":[{"role":"","parts":[{"text":"x"}]}],"tools":[{},{"functionDeclarations":[{"name":"f"}]},{}]}',
    '{"contents":[],"generationConfig":{"responseFormat":[{"text":{"mimeType":"application/json","schema":{"a":1.0}}}]}}',
    '{"contents":[],"labels":{"a":null,"__proto__":"x","fooBar":"1","foo_bar":"2"}}',
    '{"contents":[{"role":"system","parts":[{"text":"x","functionCall":{"name":"f","args":{}}}]}]}',
    '{"contents":[{"parts":[{"functionResponse":{"id":"gone","name":"f","response":{}},"thoughtSignature":"c2ln"}]}]}',
    '{"contents":[],"__proto__":{"a":1},"tools":[{"__proto__":{"a":1}}]}',
  ];
  for (const text of texts) t.equal(exactly(again(text)), exactly(text));
});

t.test("members that nobody has heard of are the same at every place", async (t) => {
  const some = recorded.filter((_, n) => n % 4 === 0).map(({ body, task, model }) => ({ body, task, model }));
  const odd = [...UNRECORDED, JSON.parse(CLIENT_BODIES.gemini.body) as unknown];
  const all = [...odd.map((body) => ({ body, task: "generate" as const, model: "m" })), ...some];
  for (const [n, { body, task, model }] of all.entries())
    for (let seed = 1; seed <= (n < odd.length ? 20 : 1); seed++) {
      // Labels are strings, and their names the client's own.
      const text = withUnheardOf(JSON.stringify(body), dice(n * 100 + seed), (path) => !path.endsWith(".labels"));
      t.equal(exactly(again(text, task, model)), exactly(text), `${n} ${seed}`);
    }
});

t.test("what is written comes from the vocabulary, not from a copy", { skip }, async (t) => {
  const { body } = recorded.find(({ body }) => JSON.stringify(body).includes('"functionCall"')) ?? {};
  const conversation = read(body, { native: true });
  for (const { parts } of conversation.turns)
    for (const part of parts) {
      if (part.kind === "text") part.text = "other text";
      if (part.kind === "tool_call") part.arguments = '{"other":1}';
      if (part.kind === "tool_result") part.name = "other";
    }
  const again = encode(conversation, terms().terms).body;
  t.match(again, /"text":"other text"/);
  t.match(again, /"args":\{"other":1\}/);
  t.match(again, /"name":"other"/);
});

const SNAKE = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** Members whose inside is the client's own, or a tool's that only the vendor runs. */
const CLOSED =
  /^(?:args|response|parameters|.*schema|labels|tool_?(?:call|response)|executable_?code|code_?execution.*)$/i;

/** The value with its members in snake case. */
function snaked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(snaked);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [SNAKE(name), CLOSED.test(name) ? member : snaked(member)]),
  );
}

/** A conversation with its paths in snake case. */
const flat = (conversation: Conversation): unknown =>
  JSON.parse(JSON.stringify(conversation), (name, value) =>
    (name === "at" || name === "path" || name === "name") && typeof value === "string" ? SNAKE(value) : value,
  );

t.test("every recorded request says the same in snake case", { skip }, async (t) => {
  for (const { id, task, body } of recorded)
    t.same(flat(without(read(snaked(body), { task }))), flat(without(read(body, { task }))), id);
});

/** Without what only this protocol understands, which is kept in the spelling it came in. */
function without(conversation: Conversation): Conversation {
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.filter((p) => p.kind !== "foreign") }));
  return { ...conversation, turns, tools: conversation.tools.filter((tool) => tool.kind !== "server") };
}

t.test("everything said of a recorded request stands in the table of fields", { skip }, async (t) => {
  const known = new Set(FIELDS.map(([, feature]) => feature));
  const uses = new Set(recorded.flatMap(({ body, task }) => read(body, { task }).uses.map(({ feature }) => feature)));
  for (const feature of uses) t.ok(known.has(feature), feature);
  for (const feature of known) t.ok(Object.hasOwn(FATES, feature), feature);
});

/** What the vendor is told, without where the client said it and without ids, which are made where none were told. */
function meaning(conversation: Conversation): unknown {
  const { turns, tools, reasoning, format, toolChoice, temperature, stop, maxTokens, seed } = without(conversation);
  const ids = new Map<string, number>();
  const number = (id: string) => ids.get(id) ?? ids.set(id, ids.size).size - 1;
  const spoken = turns.map((turn) => ({ ...turn, parts: turn.parts.filter(says) }));
  const uses = {
    turns: joined(spoken.filter(({ parts }) => parts.length > 0)),
    tools: [...tools].sort((a, b) => (a.kind < b.kind ? -1 : 1)),
    reasoning: (reasoning?.effort ?? reasoning?.budget ?? reasoning?.show) ? reasoning : undefined,
    format: format?.kind === "text" ? undefined : format,
    toolChoice,
  };
  return JSON.parse(JSON.stringify({ ...uses, temperature, stop, maxTokens, seed }), (name, value) => {
    if (name === "at" || name === "detail" || name === "filename") return undefined;
    return name === "id" || name === "callId" ? number(String(value)) : value;
  });
}

const says = (part: Part): boolean => part.kind !== "text" || part.text !== "" || part.opaque !== undefined;

t.test("every recorded request, written as another client's, says the same to the vendor", { skip }, async (t) => {
  for (const { id, body } of recorded.filter(({ task, body }) => task === "generate" && !hasOtherForms(body))) {
    const first = read(body);
    // The vendor refused that one.
    if ((first.temperature ?? 0) > 2) continue;
    const again = encode({ ...first, protocol: "some-client" }, terms().terms).body;
    t.same(meaning(read(again)), meaning(first), id);
  }
});

/** Bodies that mean the same in another form, which is the one that is written. */
const hasOtherForms = (body: unknown): boolean =>
  // Answers' stored files; VALIDATED, which is AUTO for others; a schema's own order, which JSON Schema does not name.
  /"(?:gs:|https:\/\/generativelanguage)|VALIDATED/.test(JSON.stringify(body));

const JUNK = [null, 0, -1, 1e300, "", "x", true, [], [null], [[]], {}, { a: null }, { parts: "x" }];

/** The value with one place of it replaced; `at` counts down to it. */
function broken(value: unknown, junk: unknown, at: { left: number }): unknown {
  if (at.left-- === 0) return junk;
  if (Array.isArray(value)) return value.map((each) => broken(each, junk, at));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, broken(member, junk, at)]));
}

t.test("a request broken in any place is read or refused by its path", { skip }, async (t) => {
  const rich = recorded.filter(({ body }) => /function_?response/i.test(JSON.stringify(body))).slice(0, 12);
  let refused = 0;
  for (const { id, task, body } of rich)
    for (let place = 1; place < 120; place++) {
      const junk = JUNK[place % JUNK.length];
      const error = caught(() => read(broken(body, junk, { left: place }), { task, native: true }));
      if (error === undefined) continue;
      refused++;
      if (!(error instanceof GatewayError) || error.code !== "invalid_field" || error.param === undefined)
        t.fail(`${id} with ${JSON.stringify(junk)} at ${place}: ${error}`);
    }
  t.ok(refused > 100);
});

function caught(run: () => unknown): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}
