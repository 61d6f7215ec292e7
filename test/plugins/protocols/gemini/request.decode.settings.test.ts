import t from "tap";
import type { Conversation } from "../../../../src/translation/conversation.ts";
import { read, refusal, saidOf } from "./request.asked.ts";

const config = (generationConfig: unknown): Conversation => read({ contents: [], generationConfig });
const thinking = (thinkingConfig: unknown) => config({ thinkingConfig }).reasoning;

t.test("numbers mean what they mean", async (t) => {
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
  t.same(saidOf({ generationConfig: body }), [
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
});

t.test("snake case and lower case say the same (23)", async (t) => {
  const snake = { generation_config: { thinking_config: { thinking_level: "low", include_thoughts: true } } };
  t.same(read({ contents: [], ...snake }).reasoning, thinking({ thinkingLevel: "LOW", includeThoughts: true }));
});

t.test("thinking is asked for by tokens or by a level", async (t) => {
  t.same(thinking({ thinkingLevel: "HIGH", includeThoughts: true }), { show: true, effort: "high" });
  t.same(thinking({ thinkingBudget: 512 }), { show: false, budget: 512 });
  t.same(thinking({ thinkingBudget: 0 }), { show: false, budget: 0, effort: "none" });
  t.same(thinking({ thinkingBudget: -1 }), { show: false, budget: -1 });
  t.same(thinking({ includeThoughts: true }), { show: true });
  t.equal(thinking({}), undefined);
});

t.test("modalities are a list of words", async (t) => {
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

t.test("a format may be told for each kind of output", async (t) => {
  const config = (...responseFormat: unknown[]) => ({ contents: [], generationConfig: { responseFormat } });
  const schema = { type: "OBJECT", properties: { a: { type: "STRING" } } };
  const json = { text: { mimeType: "application/json", schema } };
  t.match(read(config(json)).format, {
    kind: "schema",
    schema: { text: '{"type":"object","properties":{"a":{"type":"string"}}}' },
  });
  t.strictSame(saidOf(config(json)), ["json_schema generationConfig.responseFormat.0.text.schema"]);
  t.strictSame(read(config({ text: { mime_type: "APPLICATION_JSON" } })).format, { kind: "json" });
  t.strictSame(read(config({ text: {} })).format, { kind: "text" });
  t.strictSame(saidOf(config({ text: { mimeType: "text/x.enum" } })), [
    "other generationConfig.responseFormat.0.text.mimeType",
  ]);
  const at = "generationConfig.responseFormat";
  t.strictSame(
    saidOf(config({ text: { mimeType: "application/json", novel: 1 } }, { audio: {} }, { image: {} }, { video: {} })),
    [
      `json_object ${at}.0.text.mimeType`,
      `other ${at}.0.text.novel`,
      `audio_out ${at}.1.audio`,
      `image_out ${at}.2.image`,
      `other ${at}.3.video`,
    ],
  );
  const both = { responseFormat: [json], responseMimeType: "text/plain" };
  t.strictSame(saidOf({ contents: [], generationConfig: both }), [`other ${at}`]);
});

t.test("a bare value of an enum is nothing that others can answer", async (t) => {
  const body = { responseMimeType: "text/x.enum", responseSchema: { type: "STRING", enum: ["a"] } };
  t.equal(config(body).format, undefined);
  t.same(saidOf({ generationConfig: body }), [
    "other generationConfig.responseMimeType",
    "other generationConfig.responseSchema",
  ]);
});

t.test("text alone is the usual answer, other kinds are said", async (t) => {
  t.equal(config({ responseModalities: ["TEXT"] }).modalities, undefined);
  t.same(config({ responseModalities: ["TEXT", "IMAGE"] }).modalities, ["text", "image"]);
  t.same(saidOf({ generationConfig: { responseModalities: ["AUDIO"], speechConfig: {} } }), [
    "audio_out generationConfig.responseModalities",
    "audio_out generationConfig.speechConfig",
  ]);
});

t.test("a seed keeps its digits", async (t) => {
  const { seed } = read('{"contents":[],"generationConfig":{"seed":12345678901234567890}}');
  t.match(seed, { text: "12345678901234567890" });
});
