import t from "tap";
import { asksToExplain } from "../../src/downstream/explained.ts";
import { HeaderList } from "../../src/wire/headers.ts";

// What it answers is shown with whole gateways in explain.test.ts.

t.test("only the header's one value asks to explain", async (t) => {
  t.equal(asksToExplain(new HeaderList()), false);
  t.equal(asksToExplain(new HeaderList(["Gateway-Explain", "dry-run"])), true);
  t.throws(() => asksToExplain(new HeaderList(["gateway-explain", "on"])), { code: "invalid_field", status: 400 });
});
