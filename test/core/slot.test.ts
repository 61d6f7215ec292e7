import t from "tap";
import { slot } from "../../src/core/slot.ts";

t.test("each exchange has its own value, created on first access", async (t) => {
  let made = 0;
  const count = slot(() => ({ n: ++made }));
  const [one, other] = [{ slots: new Map() }, { slots: new Map() }];
  t.equal(made, 0);
  t.equal(count(one), count(one));
  t.same([count(one), count(other)], [{ n: 1 }, { n: 2 }]);
});

t.test("slots are independent, and keep an undefined value", async (t) => {
  const exchange = { slots: new Map() };
  const [names, nothing] = [slot(() => ["a"]), slot(() => void made++)];
  let made = 0;
  t.equal(nothing(exchange), undefined);
  t.equal(nothing(exchange), undefined);
  t.equal(made, 1);
  t.same(names(exchange), ["a"]);
});
