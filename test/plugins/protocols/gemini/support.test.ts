import t from "tap";
import type { Facts } from "../../../../src/core/marketplace.ts";
import type { Conversation, Media, ReasoningConfig } from "../../../../src/translation/conversation.ts";
import { RawJson } from "../../../../src/wire/exact.ts";
import { gathered } from "../../../support/gathered.ts";
import { read, refusal, user, usesOf, written } from "./requests.ts";

const config = (generationConfig: unknown): Conversation => read({ contents: [], generationConfig });
const thinking = (thinkingConfig: unknown) => config({ thinkingConfig }).reasoning;

t.test("numbers keep their values", async (t) => {
  const body = {
    temperature: 0.5,
    topP: 0.9,
    top_k: 40,
    candidateCount: 2,
    maxOutputTokens: "100",
    presencePenalty: 1,
    frequency_penalty: -1,
    seed: 7,
    stopSequences: ["END"],
    responseLogprobs: true,
    logprobs: 3,
  };
  t.match(config(body), {
    temperature: 0.5,
    topP: 0.9,
    topK: 40,
    choices: 2,
    maxTokens: 100,
    presencePenalty: 1,
    frequencyPenalty: -1,
    seed: 7,
    stop: ["END"],
    logprobs: 3,
  });
  t.same(usesOf({ generationConfig: body }), [
    "temperature generationConfig.temperature",
    "top_p generationConfig.topP",
    "top_k generationConfig.top_k",
    "choices generationConfig.candidateCount",
    "max_tokens generationConfig.maxOutputTokens",
    "penalties generationConfig.presencePenalty",
    "penalties generationConfig.frequency_penalty",
    "seed generationConfig.seed",
    "stop generationConfig.stopSequences",
    "logprobs generationConfig.responseLogprobs",
  ]);
  t.same(usesOf({ generationConfig: { topK: 0 } }), [], "which is unset");
});

t.test("snake case and lower case have the same meaning (23)", async (t) => {
  const snake = { generation_config: { thinking_config: { thinking_level: "low", include_thoughts: true } } };
  t.same(read({ contents: [], ...snake }).reasoning, thinking({ thinkingLevel: "LOW", includeThoughts: true }));
});

t.test("thinking is requested by tokens or by a level", async (t) => {
  t.same(thinking({ thinkingLevel: "HIGH", includeThoughts: true }), { show: true, effort: "high" });
  t.same(thinking({ thinkingBudget: 512 }), { show: false, budget: 512 });
  t.same(thinking({ thinkingBudget: 0 }), { show: false, budget: 0, effort: "none" });
  t.same(thinking({ thinkingBudget: -1 }), { show: false, budget: -1 });
  t.same(thinking({ includeThoughts: true }), { show: true });
  t.equal(thinking({}), undefined);
});

t.test("modalities are a list of names", async (t) => {
  for (const responseModalities of ["TEXT", [2], {}])
    t.match(
      refusal(() => config({ responseModalities })),
      { param: "generationConfig.responseModalities" },
    );
});

t.test("both together are refused, an unspecified level is none (24)", async (t) => {
  const both = refusal(() => thinking({ thinkingBudget: 1, thinkingLevel: "LOW" }));
  t.match(both, { param: "generationConfig.thinkingConfig.thinkingBudget", code: "invalid_field" });
  t.same(thinking({ thinkingBudget: 1, thinkingLevel: "THINKING_LEVEL_UNSPECIFIED" }), { show: false, budget: 1 });
  t.match(
    refusal(() => thinking({ thinkingLevel: "EXTREME" })),
    {
      param: "generationConfig.thinkingConfig.thinkingLevel",
    },
  );
});

t.test("a format is any JSON, or by a schema in either dialect (50, 51)", async (t) => {
  t.same(config({ responseMimeType: "application/json" }).format, { kind: "json" });
  t.same(config({ responseMimeType: "text/plain" }).format, { kind: "text" });
  const schema = '{"oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"string","pattern":"^a$"}}}';
  const json = read(`{"contents":[],"generationConfig":{"responseJsonSchema":${schema}}}`).format;
  t.equal(json?.schema?.text, schema);
  const openapi = config({ responseSchema: { type: "STRING", nullable: true, minLength: "3" } }).format;
  t.equal(openapi?.schema?.text, '{"type":["string","null"],"minLength":3}');
  const upper = config({ responseJsonSchema: { type: "OBJECT", properties: {} } }).format;
  t.equal(upper?.schema?.text, '{"type":"object","properties":{}}');
});

t.test("a format may be set for each kind of output", async (t) => {
  const config = (...responseFormat: unknown[]) => ({ contents: [], generationConfig: { responseFormat } });
  const schema = { type: "OBJECT", properties: { a: { type: "STRING" } } };
  const json = { text: { mimeType: "application/json", schema } };
  t.match(read(config(json)).format, {
    kind: "schema",
    schema: { text: '{"type":"object","properties":{"a":{"type":"string"}}}' },
  });
  t.strictSame(usesOf(config(json)), ["json_schema generationConfig.responseFormat.0.text.schema"]);
  t.strictSame(read(config({ text: { mime_type: "APPLICATION_JSON" } })).format, { kind: "json" });
  t.strictSame(read(config({ text: {} })).format, { kind: "text" });
  t.strictSame(usesOf(config({ text: { mimeType: "text/x.enum" } })), [
    "other generationConfig.responseFormat.0.text.mimeType",
  ]);
  const at = "generationConfig.responseFormat";
  t.strictSame(
    usesOf(config({ text: { mimeType: "application/json", novel: 1 } }, { audio: {} }, { image: {} }, { video: {} })),
    [
      `json_object ${at}.0.text.mimeType`,
      `other ${at}.0.text.novel`,
      `audio_out ${at}.1.audio`,
      `image_out ${at}.2.image`,
      `other ${at}.3.video`,
    ],
  );
  const both = { responseFormat: [json], responseMimeType: "text/plain" };
  t.strictSame(usesOf({ contents: [], generationConfig: both }), [`other ${at}`]);
});

t.test("an enum without a schema keeps its values", async (t) => {
  const body = { responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: ["a"] } };
  t.match(config(body).format, {
    kind: "schema",
    isPlainText: true,
    schema: { text: '{"type":"string","enum":["a"]}' },
  });
  t.same(usesOf({ generationConfig: body }), ["json_schema generationConfig.responseSchema"]);
  t.same(usesOf({ generationConfig: { responseMimeType: "text/x.enum" } }), [
    "other generationConfig.responseMimeType",
  ]);
});

t.test("text alone is the default, other kinds are declared", async (t) => {
  t.equal(config({ responseModalities: ["TEXT"] }).modalities, undefined);
  t.same(config({ responseModalities: ["TEXT", "IMAGE"] }).modalities, ["text", "image"]);
  t.same(usesOf({ generationConfig: { responseModalities: ["AUDIO"], speechConfig: {} } }), [
    "audio_out generationConfig.responseModalities",
    "audio_out generationConfig.speechConfig",
  ]);
});

t.test("a seed keeps its digits", async (t) => {
  const { seed } = read('{"contents":[],"generationConfig":{"seed":12345678901234567890}}');
  t.match(seed, { text: "12345678901234567890" });
});

const configOf = (more: Partial<Conversation>, facts: Facts = {}) => written(more, facts).body.generationConfig;

t.test("a request without settings has no configuration", async (t) => {
  t.equal(configOf({}), undefined);
  t.equal(configOf({ choices: 1, modalities: ["text"], format: { kind: "text" }, stop: [] }), undefined);
});

t.test("settings by their names", async (t) => {
  const settings = { temperature: 0.5, topP: 0.9, topK: 40, presencePenalty: 1, frequencyPenalty: -1, seed: 7 };
  t.same(configOf({ ...settings, choices: 2, maxTokens: 9, stop: ["END"], modalities: ["text", "image"] }), {
    ...settings,
    candidateCount: 2,
    maxOutputTokens: 9,
    stopSequences: ["END"],
    responseModalities: ["TEXT", "IMAGE"],
  });
  t.same(configOf({ logprobs: 3 }), { responseLogprobs: true, logprobs: 3 });
  t.same(configOf({ logprobs: 0 }), { responseLogprobs: true });
});

t.test("penalties are dropped for models that refuse them", async (t) => {
  const uses = ["presence_penalty", "frequency_penalty"].map((path) => ({ feature: "penalties" as const, path }));
  for (const model of ["gemini-2.5-flash", "gemini-3.8-flash", "models/gemini-10-pro"]) {
    const { body, dropped } = written({ presencePenalty: 0, frequencyPenalty: 0.5, uses }, {}, model);
    t.equal(body.generationConfig, undefined, model);
    t.match(dropped, [/^frequency_penalty: the model takes no penalties/]);
  }
  const { body, dropped } = written({ presencePenalty: 0, frequencyPenalty: 0.5, uses }, {}, "gemini-2.0-flash");
  t.same(body.generationConfig, { presencePenalty: 0, frequencyPenalty: 0.5 });
  t.same(dropped, []);
});

t.test("values out of range are refused, changed or dropped with the client's path", async (t) => {
  const uses = [
    { feature: "temperature" as const, path: "my.temperature" },
    { feature: "max_tokens" as const, path: "my.max" },
    { feature: "stop" as const, path: "my.stop" },
    { feature: "seed" as const, path: "my.seed" },
  ];
  t.match(
    refusal(() => written({ uses, temperature: 2.5 })),
    { message: /^my\.temperature: / },
  );
  t.match(
    refusal(() => written({ uses, maxTokens: 0 })),
    { message: /^my\.max: / },
  );
  t.match(
    refusal(() => written({ uses, stop: ["1", "2", "3", "4", "5", "6"] })),
    { message: /^my\.stop: / },
  );
  t.match(written({ uses, seed: 2 ** 31 }), { dropped: [/^my\.seed: /], body: { generationConfig: undefined } });
  t.match(written({ uses, seed: new RawJson("12345678901234567890") }).dropped, [/^my\.seed: /]);
});

t.test("a model without sampling settings gets none, which is declared", async (t) => {
  const { body, dropped } = written({ temperature: 1, topK: 5 }, { sampling: false });
  t.equal(body.generationConfig, undefined);
  t.match(dropped, [/^temperature: /, /^top_k: /]);
});

t.test("a format is a type and a schema, unchanged (50)", async (t) => {
  t.same(configOf({ format: { kind: "json" } }), { responseMimeType: "application/json" });
  const schema = '{"oneOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"pattern":"^A+$","minimum":1.0}}}';
  const { text } = written({ format: { kind: "schema", name: "n", strict: true, schema: new RawJson(schema) } });
  t.ok(text.includes(`"responseMimeType":"application/json","responseJsonSchema":${schema}`));
});

t.test("an effort is a level, or tokens where the model takes tokens", async (t) => {
  const thinking = (reasoning: ReasoningConfig, facts: Facts = {}) =>
    configOf({ reasoning }, facts)?.["thinkingConfig"];
  t.same(thinking({ effort: "low" }), { thinkingLevel: "LOW", includeThoughts: true });
  t.same(thinking({ effort: "minimal", show: false }), { thinkingLevel: "MINIMAL" });
  t.same(thinking({ effort: "medium" }, { thinking: "budget" }), { thinkingBudget: 12288, includeThoughts: true });
  t.same(thinking({ effort: "none" }), { thinkingBudget: 0 });
  t.same(thinking({ budget: 0, show: true }), { thinkingBudget: 0 });
  t.same(thinking({ budget: 2000 }), { thinkingBudget: 2000, includeThoughts: true });
  t.same(thinking({ budget: -1 }), { thinkingBudget: -1, includeThoughts: true });
  t.same(thinking({ budget: -1, effort: "high" }), { thinkingLevel: "HIGH", includeThoughts: true });
  t.same(thinking({ budget: -1 }, { thinking: "level" }), { includeThoughts: true });
  t.same(thinking({ summary: "auto" }), { includeThoughts: true });
  t.same(thinking({ summary: "auto" }, { thinking: "budget" }), { thinkingBudget: -1, includeThoughts: true });
  t.equal(thinking({ show: false }, { thinking: "budget" }), undefined);
  t.equal(thinking({ show: false }), undefined);
  const named = written({ reasoning: { effort: "medium" } }, {}, "gemini-2.5-flash").body.generationConfig;
  t.same(named, { thinkingConfig: { thinkingBudget: 12288, includeThoughts: true } }, "by its name, whoever serves it");
});

gathered(t, "never both a level and tokens, whatever is asked for", async (t) => {
  for (const thinking of ["budget", "level", "adaptive", undefined] as const)
    for (const effort of ["none", "minimal", "low", "medium", "high", "xhigh", "max", undefined] as const)
      for (const budget of [-1, 0, 500, 5000, 50000, undefined]) {
        const reasoning = { ...(effort && { effort }), ...(budget !== undefined && { budget }) };
        const made = configOf({ reasoning }, thinking ? { thinking } : {})?.["thinkingConfig"] ?? {};
        t.notOk("thinkingLevel" in (made as object) && "thinkingBudget" in (made as object));
      }
});

t.test("a value above the maximum becomes the maximum, which is declared", async (t) => {
  for (const effort of ["xhigh", "max"] as const)
    t.match(written({ reasoning: { effort } }), {
      body: { generationConfig: { thinkingConfig: { thinkingLevel: "HIGH" } } },
      changed: [/^reasoning: /],
    });
  t.match(written({ reasoning: { budget: 31999 } }), {
    body: { generationConfig: { thinkingConfig: { thinkingBudget: 24576 } } },
    changed: [/31999/],
  });
  t.match(written({ reasoning: { budget: 8000 } }, { thinking: "level" }), {
    body: { generationConfig: { thinkingConfig: { thinkingLevel: "MEDIUM" } } },
    changed: [/8000/],
  });
});

t.test("a model without thinking is not asked for it, which is declared", async (t) => {
  t.match(written({ reasoning: { effort: "high" } }, { thinking: "none" }), {
    body: { generationConfig: undefined },
    dropped: [/^reasoning: /],
  });
  t.same(written({ reasoning: { effort: "none" } }, { thinking: "none" }).dropped, []);
  const unlisted = (facts: Facts, model: string) =>
    written({ reasoning: { effort: "high" } }, facts, model).body.generationConfig?.["thinkingConfig"];
  t.equal(unlisted({ reasons: false }, "gemma-3-27b-it"), undefined);
  t.match(unlisted({ reasons: false, thinking: "level" }, "gemma-4"), { thinkingLevel: "HIGH" });
  // Public tables do not know of all that think.
  t.match(unlisted({ reasons: false }, "gemini-3-pro-image-preview"), { thinkingLevel: "HIGH" });
});

t.test("the media resolution is one for all media", async (t) => {
  const image = (detail?: string): Media => ({
    kind: "media",
    at: "i",
    media: "image",
    mime: "image/png",
    source: { base64: "aGk=" },
    ...(detail === undefined ? {} : { detail }),
  });
  t.same(configOf({ turns: [user(image("low"), image("low"))] }), { mediaResolution: "MEDIA_RESOLUTION_LOW" });
  t.equal(configOf({ turns: [user(image("auto"), image())] }), undefined);
  const uses = ["a", "b"].map((path) => ({ feature: "media_detail" as const, path }));
  const mixed = written({ turns: [user(image("low"), image("high"))], uses });
  t.equal(mixed.body.generationConfig, undefined);
  t.match(mixed.dropped, [/^a: /, /^b: /]);
});

t.test("models with thinking levels cannot turn it off, which is declared", async (t) => {
  for (const reasoning of [{ effort: "none" }, { budget: 0 }] as const) {
    const { body, changed } = written({ reasoning }, { thinking: "level" });
    t.same(body.generationConfig, { thinkingConfig: { thinkingLevel: "MINIMAL" } });
    t.match(changed, [/the minimum is requested/]);
  }
});

t.test("a model known to think always gets the least that it accepts, which is declared", async (t) => {
  const least = (model: string, facts: Facts = {}) => {
    const { body, changed } = written({ reasoning: { effort: "none" } }, facts, model);
    return [body.generationConfig?.["thinkingConfig"], changed.length];
  };
  t.same(least("gemini-2.5-pro", { thinking: "budget" }), [{ thinkingBudget: 128 }, 1]);
  t.same(least("models/gemini-2.5-pro-preview-06-05"), [{ thinkingBudget: 128 }, 1]);
  for (const facts of [{}, { thinking: "level" }] as const)
    t.same(least("gemini-3.1-pro-preview", facts), [{ thinkingLevel: "LOW" }, 1]);
  t.same(least("gemini-3-flash", { thinking: "level" }), [{ thinkingLevel: "MINIMAL" }, 1]);
  for (const model of ["gemini-2.5-flash", "gemini-3-flash", "gemini-3-pro-image-preview"])
    t.same(least(model), [{ thinkingBudget: 0 }, 0]);
  const minimal = (model: string, reasoning: ReasoningConfig = { effort: "minimal" }) => {
    const { body, changed } = written({ reasoning }, { thinking: "level" }, model);
    return [body.generationConfig?.["thinkingConfig"], ...changed];
  };
  const low = { thinkingLevel: "LOW", includeThoughts: true };
  t.match(minimal("gemini-3-pro-preview"), [low, /minimal becomes low, the lowest level of this model/]);
  t.match(minimal("gemini-3-pro-preview", { budget: 512 }), [low, /512 tokens become LOW/]);
  t.same(minimal("gemini-3-flash"), [{ ...low, thinkingLevel: "MINIMAL" }]);
});

t.test("the description of a schema is left out, which is declared", async (t) => {
  const format = { kind: "schema", schema: new RawJson("{}"), description: "A city." } as const;
  t.match(written({ format, uses: [{ feature: "json_schema", path: "my.format" }] }).changed, [/^my\.format: /]);
  t.same(written({ format: { kind: "schema", schema: new RawJson("{}") } }).changed, []);
});
