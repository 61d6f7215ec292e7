import t from "tap";
import { isEmptyArguments } from "../../src/translation/arguments.ts";

t.test("none, null and an empty list are no arguments; everything else is", async (t) => {
  for (const text of ["", " \n", "null", " null ", "[]", "[ \n]", "\t[]\t"])
    t.ok(isEmptyArguments(text), JSON.stringify(text));
  for (const text of ["{}", "[1]", "[", "[]]", "nul", "0", '""', "{", "[{}]"]) t.notOk(isEmptyArguments(text), text);
});
