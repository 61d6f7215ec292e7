import t from "tap";
import type { z } from "zod";
import {
  budget,
  date,
  limitOrOff,
  milliseconds,
  network,
  percent,
  period,
  tokens,
} from "../../src/config/quantities.ts";

const read = (field: z.ZodType, written: unknown): unknown => {
  const found = field.safeParse(written);
  return found.success ? found.data : `! ${found.error.issues[0]?.message}`;
};

t.test("a quantity is parsed with its unit, and a field accepts several forms", async (t) => {
  t.equal(read(milliseconds, "90s"), 90_000);
  t.equal(read(milliseconds, "off"), 0);
  t.equal(read(percent, "20%"), 0.2);
  t.equal(read(tokens, "128k"), 128_000);
  t.equal(read(limitOrOff, "off"), 0);
  t.match(read(budget, "$50/month"), [{ per: "month" }]);
  t.same(read(budget, "off"), []);
  t.match(read(budget, ["$1/day", { amount: "$5/month", soft: true }]), [{ per: "day" }, { soft: true }]);
  t.equal(read(date, "2026-12-31"), Date.UTC(2026, 11, 31));
  t.equal(read(network, "10.0.0.0/8"), "10.0.0.0/8");
});

t.test("an invalid quantity is reported with a valid example", async (t) => {
  t.match(read(milliseconds, "soon"), /^! .*soon/);
  t.match(read(period, "off"), /write it like 90s, 500ms, 5m or 1h$/);
  t.match(read(budget, 5), /^! /);
  t.match(read(network, "10.0.0.0/99"), /^! /);
});
