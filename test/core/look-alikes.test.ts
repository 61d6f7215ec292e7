import t from "tap";
import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../src/core/body.ts";
import { lookAlikes } from "../../src/core/look-alikes.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { splice } from "../../src/wire/splice.ts";

const without = (protocol: Protocol, text: string) => {
  const body = new Body([Buffer.from(text)], "json");
  const { names, edits } = lookAlikes(body, protocol);
  return [names, Buffer.concat(splice([Buffer.from(text)], edits)).toString()];
};

t.test("a request without look-alike members is unchanged", async (t) => {
  const text =
    '{"model":"m","Temperature":1,"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2,"responseSchema":{"properties":{"MaxOutputTokens":{}}}},"generation_config":[{"MaxOutputTokens":1}]}';
  t.same(without(gemini, text), [[], text]);
  t.same(without(responses, '["Model"]'), [[], '["Model"]']);
});

t.test(
  "each look-alike member is removed with its comma, at the top and within objects that hold limits",
  async (t) => {
    t.same(without(gemini, '{"Model":1,"generationConfig":{"MAXOutputTokens":1,"topK":2},"GENERATION_CONFIG":{}}'), [
      ["Model", "GENERATION_CONFIG", "generationConfig.MAXOutputTokens"],
      '{"generationConfig":{"topK":2}}',
    ]);
    t.same(without(responses, '{"Input":1,"max_output_to\u212aens":5,"\u017fervice_tier":"x"}'), [
      ["max_output_to\u212aens", "\u017fervice_tier"],
      '{"Input":1}',
    ]);
  },
);

t.test("those in the entries of a list of further models are removed too", async (t) => {
  const text =
    '{"fallbacks":[{"model":"a","Max_Tokens":9,"max_tokens":1},{"model":"b","Model":"c","Speed":"fast","max_to\u212aens":2}]}';
  t.same(without(anthropic, text), [
    ["fallbacks.0.Max_Tokens", "fallbacks.1.Model", "fallbacks.1.Speed", "fallbacks.1.max_to\u212aens"],
    '{"fallbacks":[{"model":"a","max_tokens":1},{"model":"b"}]}',
  ]);
  const clean = '{"fallbacks":[{"model":"a","max_tokens":1,"metadata":{"Model":1}},"Model"]}';
  t.same(without(anthropic, clean), [[], clean]);
});

t.test("more than a hundred of them are refused", async (t) => {
  const body = (count: number) => `{"fallbacks":[${Array(count).fill('{"Model":"m"}').join()}]}`;
  t.equal(without(anthropic, body(100))[0]?.length, 100);
  t.throws(() => without(anthropic, body(101)), { code: "invalid_field", param: "fallbacks.0.Model" });
});
