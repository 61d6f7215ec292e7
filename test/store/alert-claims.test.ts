import t from "tap";
import { AlertClaims } from "../../src/store/alert-claims.ts";

t.test("a store for one gateway has nobody else to ask", async (t) => {
  const claims = new AlertClaims();
  for (let i = 0; i < 2; i++) t.equal(await claims.claim("ledger", "waiting", 1000, false), true);
});
