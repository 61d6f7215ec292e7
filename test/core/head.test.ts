import t from "tap";
import { isFinalStatus } from "../../src/core/head.ts";

t.test("any whole number of three digits from 200 on can be the status of a final response", async (t) => {
  t.ok([200, 404, 529, 999].every(isFinalStatus));
  t.notOk([0, 101, 199, 1000, 200.5, Number.NaN].some(isFinalStatus));
});
