import t from "tap";
import { OnceNames } from "../../src/store/once-names.ts";

t.test("what has a name counts once, what has none each time", async (t) => {
  const names = new OnceNames();
  const charge = { tokens: 1, cost: 10 };
  t.same(names.count({ ...charge, once: "a" }), charge);
  t.same(names.count({ ...charge, once: "a" }), { tokens: 0, cost: 0 });
  t.same(names.count({ ...charge, once: "b" }), charge);
  t.same([names.count(charge), names.count(charge)], [charge, charge]);
});

t.test("the oldest of many names are forgotten", async (t) => {
  const names = new OnceNames();
  for (let i = 0; i <= 10_000; i++) names.count({ tokens: 0, cost: 1, once: String(i) });
  t.equal(names.count({ tokens: 0, cost: 1, once: "10000" }).cost, 0);
  t.equal(names.count({ tokens: 0, cost: 1, once: "0" }).cost, 1);
});
