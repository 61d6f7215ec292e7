import t from "tap";
import { DryRun } from "../../src/core/dry-run.ts";

t.test("a dry run begins without notices and without counts", async (t) => {
  const dryRun = new DryRun();
  t.same(dryRun.notes, []);
  t.equal(dryRun.maximum, undefined);
});
