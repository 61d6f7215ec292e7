import t from "tap";
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

t.test("a request without them stays as it is, whatever it says", async (t) => {
  const text =
    '{"model":"m","Temperature":1,"generationConfig":{"maxOutputTokens":1,"max_output_tokens":2,"responseSchema":{"properties":{"MaxOutputTokens":{}}}},"generation_config":[{"MaxOutputTokens":1}]}';
  t.same(without(gemini, text), [[], text]);
  t.same(without(responses, '["Model"]'), [[], '["Model"]']);
});

t.test("each goes with its comma, at the top and within what holds limits", async (t) => {
  t.same(without(gemini, '{"Model":1,"generationConfig":{"MAXOutputTokens":1,"topK":2},"GENERATION_CONFIG":{}}'), [
    ["Model", "GENERATION_CONFIG", "generationConfig.MAXOutputTokens"],
    '{"generationConfig":{"topK":2}}',
  ]);
  t.same(without(responses, '{"Input":1,"max_output_to\u212aens":5,"\u017fervice_tier":"x"}'), [
    ["max_output_to\u212aens", "\u017fervice_tier"],
    '{"Input":1}',
  ]);
});
