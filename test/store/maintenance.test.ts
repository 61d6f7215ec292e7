import t from "tap";
import { Maintenance } from "../../src/store/maintenance.ts";

/** A store from which rows are deleted in such steps. */
const storeOf = (...steps: number[]): Pick<Maintenance, "prune"> =>
  Object.assign(Object.create(Maintenance.prototype), { removeRows: () => steps });

t.test("the deletion of rows tells its progress each 100,000 rows, whatever its steps are", async (t) => {
  const told: string[] = [];
  const progress = (message: string) => void told.push(message);
  t.equal(await storeOf(0).prune(0, progress), 0);
  t.equal(await storeOf(2000, 2000, 500).prune(0, progress), 4500);
  t.same(told, [], "a few are deleted at once");
  t.equal(await storeOf(60_000, 60_000, 2000, 250_000).prune(0, progress), 372_000);
  t.same(told, ["120,000 rows", "372,000 rows"]);
});
