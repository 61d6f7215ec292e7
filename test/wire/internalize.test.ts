import t from "tap";
import { internalize } from "../../src/wire/internalize.ts";

t.test("an internalized text is the same text, whatever it contains", async (t) => {
  for (const text of ["", "a", "x".repeat(100_000), "0", "__proto__", "caf\xe9", "\ud800", "model:gpt-5"])
    t.equal(internalize(text), text);
});
