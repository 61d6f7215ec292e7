import t from "tap";
import { help, USAGE } from "../../src/cli/help/diff.ts";

t.test("diff says what its exit codes stand for; reload.test.ts has what it shows", async (t) => {
  t.match(USAGE, /0 nothing would change, 1 something would/);
  t.match(help, /^diff /);
});
