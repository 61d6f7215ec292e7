import t from "tap";
import { count } from "../../../../plugins/protocols/openai-responses/count.ts";

t.test("a count is a number in an object of its own", async (t) => {
  t.equal(count.decode('{"object":"response.input_tokens","input_tokens":11}'), 11);
  t.same(JSON.parse(count.encode(11)), { object: "response.input_tokens", input_tokens: 11 });
});

t.test("an answer without a count is the provider's fault", async (t) => {
  for (const text of ["", "<html>", "null", "{}", '{"input_tokens":"11"}', '{"input_tokens":-1}'])
    t.throws(() => count.decode(text), { code: "upstream_invalid", status: 502 }, text);
});
