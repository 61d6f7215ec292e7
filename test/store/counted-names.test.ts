import t from "tap";
import { CountedNames } from "../../src/store/counted-names.ts";

t.test("entries with a name count once, those without each time", async (t) => {
  const names = new CountedNames();
  const charge = { tokens: 1, cost: 10 };
  t.same(names.countOnce({ ...charge, once: "a" }), charge);
  t.same(names.countOnce({ ...charge, once: "a" }), { tokens: 0, cost: 0 });
  t.same(names.countOnce({ ...charge, once: "b" }), charge);
  t.same([names.countOnce(charge), names.countOnce(charge)], [charge, charge]);
});

t.test("the oldest of many names are forgotten", async (t) => {
  const names = new CountedNames();
  for (let i = 0; i <= 10_000; i++) names.countOnce({ tokens: 0, cost: 1, once: String(i) });
  t.equal(names.countOnce({ tokens: 0, cost: 1, once: "10000" }).cost, 0);
  t.equal(names.countOnce({ tokens: 0, cost: 1, once: "0" }).cost, 1);
});
