import t from "tap";
import { translation } from "./speaking.ts";

t.test("a count is read and written", async (t) => {
  t.equal(translation.count?.decode('{"input_tokens": 14}'), 14);
  t.equal(translation.count?.encode(14), '{"input_tokens":14}');
});

t.test("what is no count is invalid", async (t) => {
  for (const text of ["", "[]", "{}", '{"input_tokens":"14"}'])
    t.throws(() => translation.count?.decode(text), { code: "upstream_invalid" }, text);
});
