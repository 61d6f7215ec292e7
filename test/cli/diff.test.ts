import t from "tap";
import * as diff from "../../src/cli/diff.ts";

t.test("diff says what its exit codes stand for; reload.test.ts has what it shows", async (t) => {
  t.match(diff.USAGE, /0 nothing would change, 1 something would/);
  t.match(diff.help, /^diff /);
});
