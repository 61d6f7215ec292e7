import { createHash } from "node:crypto";
import t from "tap";
import {
  cacheBreakpoint,
  effortForBudget,
  errorResultText,
  fitLabel,
  fitName,
  isOpenaiModel,
  mayReason,
  parametersOf,
  promptCacheOptions,
  strictOf,
  supportedEffort,
  takesMarks,
} from "../../../../plugins/protocols/openai/request.encode.ts";
import type { Conversation, Effort } from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { terms } from "../openai-chat/fixture.ts";

t.test("a cache mark lasts at least as long as requested, in the two durations that the vendor has", async (t) => {
  const marks = [{}, { ttl: "5m" }, { ttl: "30m" }, { ttl: "1h" }, { ttl: "12h" }] as const;
  t.same(marks.map(cacheBreakpoint), [
    { mode: "explicit" },
    { mode: "explicit" },
    { mode: "explicit", ttl: "30m" },
    { mode: "explicit", ttl: "12h" },
    { mode: "explicit", ttl: "12h" },
  ]);
  t.same(marks.map(promptCacheOptions), [
    undefined,
    undefined,
    { mode: "implicit", ttl: "30m" },
    { mode: "implicit", ttl: "12h" },
    { mode: "implicit", ttl: "12h" },
  ]);
});

t.test(
  "a function stays strict if the vendor can enforce its schema, or the client's vendor has the same rules",
  async (t) => {
    const strictFor = (protocol: string, schema: object, strict = true) => {
      const to = terms();
      const tool = { kind: "function", name: "f", at: "tools.0", strict } as const;
      const parameters = new RawJson(JSON.stringify(schema));
      return [strictOf({ ...tool, parameters }, { protocol } as Conversation, to), to.losses.changed];
    };
    const closed = { type: "object", properties: { a: { type: "string" } }, additionalProperties: false };
    const required = { ...closed, required: ["a"] };
    t.same(strictFor("anthropic-messages", required), [true, []]);
    t.same(strictFor("anthropic-messages", closed), [undefined, ["tools.0"]], "with a member that may be absent");
    t.same(strictFor("anthropic-messages", closed, false), [false, []]);
    t.same(strictFor("openai-chat", closed), [true, []], "the vendor judges its own clients' schemas");
  },
);

t.test(
  "alternatives at the root of a function's parameters are described to OpenAI's models, which refuse them",
  async (t) => {
    const parametersFor = (model: string, schema?: object) => {
      const to = { ...terms(), model };
      const parameters = schema && new RawJson(JSON.stringify(schema));
      const tool = { kind: "function", name: "f", at: "tools.0", ...(parameters && { parameters }) } as const;
      return [parametersOf(tool, to)?.text, to.losses.changed];
    };
    const schema = { type: "object", properties: {}, anyOf: [{ required: ["a"] }], not: {} };
    const described = {
      type: "object",
      properties: {},
      description: JSON.stringify({ anyOf: [{ required: ["a"] }], not: {} }),
    };
    t.same(parametersFor("gpt-5.5", schema), [JSON.stringify(described), ["tools.0"]]);
    t.same(parametersFor("deepseek-chat", schema), [JSON.stringify(schema), []], "others take them");
    const named = { $ref: "#/$defs/A", $defs: { A: schema } };
    const inlined = JSON.stringify({
      type: "object",
      properties: {},
      $defs: { A: schema },
      description: described.description,
    });
    t.same(parametersFor("gpt-5.5", named), [inlined, ["tools.0"]], "also where the root only refers to them");
    t.same(parametersFor("gpt-5.5", { type: "object" }), ['{"properties":{},"type":"object"}', []]);
    t.same(parametersFor("gpt-5.5"), [undefined, []]);
  },
);

t.test("a label that is too long is sent as its hash, and that is declared", async (t) => {
  const to = terms();
  t.equal(fitLabel("x".repeat(64), "user", to), "x".repeat(64));
  t.same(to.losses.changed, []);
  const long = "x".repeat(65);
  t.equal(fitLabel(long, "user", to), createHash("sha256").update(long).digest("hex"));
  t.same(to.losses.changed, ["user"]);
});

t.test("a tool's name is made acceptable to the vendor, and maps back to the client's", async (t) => {
  const to = terms();
  for (const name of ["get_weather", "a.b/c", "x".repeat(100)]) {
    const fitted = fitName({ name }, to);
    t.match(fitted, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(to.names.original(fitted).name, name);
  }
});

t.test("texts that mention an error stay unchanged", async (t) => {
  for (const text of ["Error: no such file", "It failed.", "Access denied", '{"exception":1}'])
    t.equal(errorResultText(["42", text]), undefined, text);
});

t.test("all other texts together become the error of an object", async (t) => {
  t.equal(errorResultText(["42"]), '{"error":"42"}');
  t.equal(errorResultText(["42", "43"]), '{"error":"42\\n43"}');
  t.equal(errorResultText([]), '{"error":"The tool failed."}');
  t.equal(errorResultText([""]), '{"error":"The tool failed."}');
});

const BUDGETS = [-1, 0, 1, 1024, 1025, 4096, 12_288, 24_576, 24_577, 1_000_000];

t.test("a thinking budget becomes the nearest effort that any model accepts; below 0 the model decides", async (t) => {
  const efforts = BUDGETS.map((budget) => effortForBudget(budget, "gpt-5.1"));
  t.same(efforts, [undefined, "none", "low", "low", "low", "low", "medium", "high", "high", "high"]);
});

t.test("for a model known to accept more efforts, one of those", async (t) => {
  t.same(
    [1024, 24_577].map((budget) => effortForBudget(budget, "gpt-5-mini-2025-08-07")),
    ["minimal", "high"],
  );
  t.same(
    [1024, 24_577].map((budget) => effortForBudget(budget, "openai/gpt-5.6")),
    ["low", "xhigh"],
  );
});

t.test("a model may reason unless facts or its name say that it does not", async (t) => {
  for (const model of [
    "gpt-4o",
    "openai/gpt-4.1-mini",
    "ft:gpt-4o-2024-08-06:org::id",
    "chatgpt-4o-latest",
    "gpt-35-turbo",
  ])
    t.equal(mayReason({ model, facts: {} }), false, model);
  for (const model of ["gpt-5", "gpt-oss-120b", "my-gpt-4-proxy", "another"])
    t.equal(mayReason({ model, facts: {} }), true, model);
  const url = new URL("https://us.openai.azure.com/openai/v1");
  for (const model of ["prod-gpt-4o", "team_gpt4", "GPT-4.1-mini"])
    t.equal(mayReason({ model, facts: {}, url }), false, `${model}, a deployment at Azure`);
  for (const model of ["prod-gpt-5", "chat", "prod-o4-mini"])
    t.equal(mayReason({ model, facts: {}, url }), true, model);
  t.equal(mayReason({ model: "prod-gpt-4o", facts: { reasons: true }, url }), true);
  t.equal(mayReason({ model: "another", facts: { reasons: false } }), false);
  t.equal(mayReason({ model: "gpt-4o", facts: { thinking: "level" } }), true, "gateway.yaml decides");
  t.equal(mayReason({ model: "gpt-5", facts: { thinking: "none" } }), false);
});

t.test(
  "an effort that the model is not known to accept becomes the next one, declared, except for clients of the family",
  async (t) => {
    const sent = (effort: Effort, model: string, protocol = "gemini") => {
      const to = { ...terms(), model };
      const uses = [{ feature: "reasoning_effort" as const, path: "effort" }];
      const asked: Conversation = { protocol, task: "generate", stream: false, turns: [], tools: [], uses };
      return [supportedEffort(effort, asked, to), to.losses.changed.length];
    };
    t.same(sent("minimal", "gpt-5.6"), ["low", 1]);
    t.same(sent("minimal", "gpt-5"), ["minimal", 0]);
    t.same(sent("max", "gpt-5.6"), ["xhigh", 1]);
    t.same(sent("max", "another"), ["high", 1]);
    t.same(sent("xhigh", "another"), ["high", 1]);
    t.same(sent("none", "another"), ["none", 0]);
    t.same(sent("none", "gpt-5.1"), ["none", 0]);
    t.same(sent("none", "openai/gpt-5-mini-2025-08-07"), ["minimal", 1], "it reasons always");
    t.same(sent("none", "o3"), ["low", 1]);
    for (const model of ["grok-4.5", "muse-spark-1.3"]) t.same(sent("none", model), ["low", 1], model);
    t.same(sent("none", "grok-4.3"), ["none", 0]);
    t.same(sent("none", "o3", "openai-responses"), ["none", 0]);
    t.same(sent("low", "another"), ["low", 0]);
    t.same(sent("minimal", "another", "openai-chat"), ["minimal", 0], "the vendor decides on it");
  },
);

t.test("a deployment at Azure is a model of OpenAI's, unless it has another vendor's name", async (t) => {
  for (const host of ["us.openai.azure.com", "us.services.ai.azure.com", "us.cognitiveservices.azure.com"]) {
    const url = new URL(`https://${host}/openai/v1`);
    const isOpenais = (model: string) => isOpenaiModel({ model, facts: {}, url });
    for (const model of ["prod-chat", "team-a", "gpt-5.6", "delphi", "crossteam-o3"]) t.ok(isOpenais(model), model);
    for (const model of [
      "gpt-oss-120b",
      "gptoss",
      "team.phi4",
      "DeepSeek-V4",
      "grok-4",
      "Llama-4-Maverick",
      "mistral-large",
      ...["Ministral-3B", "Mixtral-8x7B", "Codestral-2501", "devstral-2", "magistral-small"],
      ...["cohere-command-a", "Command-R", "Kimi-K2-Thinking", "qwen3-32b", "AI21-Jamba-1.5"],
      "Phi-4",
    ])
      t.notOk(isOpenais(model), model);
  }
  t.ok(isOpenaiModel({ model: "team-a", facts: {}, url: new URL("https://us.openai.azure.us/openai/v1") }));
  const elsewhere = new URL("https://llm.example.com/v1");
  t.notOk(isOpenaiModel({ model: "prod-chat", facts: {}, url: elsewhere }));
});

t.test(
  "a model is OpenAI's by its name, also fine-tuned, or where it takes no sampling settings and is not Claude",
  async (t) => {
    for (const model of ["ft:gpt-4o:acme::x", "ft:o4-mini-2025-04-16:acme::x", "ft:o4-mini:acme::x", "openai/gpt-5.6"])
      t.ok(isOpenaiModel({ model, facts: {} }), model);
    t.ok(isOpenaiModel({ model: "own", facts: { sampling: false } }));
    t.notOk(isOpenaiModel({ model: "anthropic/claude-opus-5", facts: { sampling: false } }));
  },
);

t.test("cache marks are taken by models from GPT-5.6 on, unless a fact says otherwise", async (t) => {
  const takes = (model: string, cache_marks?: boolean) =>
    takesMarks({ model, facts: cache_marks === undefined ? {} : { cache_marks } });
  for (const model of ["gpt-5.6", "openai/gpt-5.6-terra", "gpt-5-6", "gpt-5.10", "gpt-6"]) t.ok(takes(model), model);
  for (const model of ["gpt-5", "gpt-5-2025-08-07", "gpt-5.1", "gpt-5.1-2025-11-13", "gpt-4o", "glm-5"])
    t.notOk(takes(model), model);
  t.same([takes("gpt-5.1", true), takes("gpt-5.6", false)], [true, false]);
});
