import t from "tap";
import { help, USAGE } from "../../src/cli/help/diff.ts";

t.test("the help of diff explains its exit codes", async (t) => {
  t.match(USAGE, /0 nothing would change, 1 something would/);
  t.match(help, /^diff /);
});
