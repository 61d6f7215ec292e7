import t from "tap";
import { count } from "../../../../plugins/protocols/gemini/count.ts";

t.test("a count is written and read", async (t) => {
  t.equal(count.encode(31), '{"totalTokens":31}');
  t.equal(count.decode('{"totalTokens":31,"promptTokensDetails":[{"modality":"TEXT","tokenCount":31}]}'), 31);
});

t.test("a count of 0 is left out on the wire", async (t) => {
  t.equal(count.decode("{}"), 0);
});

t.test("anything else is no answer of the provider's", async (t) => {
  for (const text of ["", "<html>", "[]", "12", '{"totalTokens":"many"}', '{"totalTokens":-1}'])
    t.throws(() => count.decode(text), { code: "upstream_invalid" }, text);
});
