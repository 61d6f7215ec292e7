import t from "tap";
import { eachPeriod, formatDollars, limitOwner } from "../../src/core/limit-messages.ts";

t.test("amounts are formatted for people, and small ones with enough digits", async (t) => {
  for (const [nano, text] of [
    [0, "$0.00"],
    [50e9, "$50.00"],
    [1_234_567_890, "$1.23"],
    [500_000_000, "$0.50"],
    [10_000_000, "$0.01"],
    [100_000, "$0.0001"],
    [1, "$0.000000001"],
  ] as const)
    t.equal(formatDollars(nano), text);
});

t.test("a period is named as English writes it", async (t) => {
  t.same((["hour", "day", "week", "month"] as const).map(eachPeriod), ["an hour", "a day", "a week", "a month"]);
});

t.test("the owner of a limit is named", async (t) => {
  t.equal(limitOwner({ kind: "group", name: "acme/research" }), 'The group "acme/research"');
  t.equal(limitOwner({ kind: "key", name: "k_123", label: "ci" }), 'The key "ci"', "as other refusals call it");
  t.equal(limitOwner({ kind: "all", name: "" }), "The gateway");
  t.equal(limitOwner({ kind: "key", name: "" }), "All callers without a key");
});
