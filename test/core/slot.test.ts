import t from "tap";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import { slot } from "../../src/core/slot.ts";

t.test("each exchange has its own value, created on first access", async (t) => {
  let made = 0;
  const count = slot(() => ({ n: ++made }));
  const [one, other] = [{ slots: new Map() }, { slots: new Map() }];
  t.equal(made, 0);
  t.equal(count(one), count(one));
  t.same([count(one), count(other)], [{ n: 1 }, { n: 2 }]);
});

t.test("a look at whether there is a value creates none", async (t) => {
  const names = slot(() => ["a"]);
  const exchange = new Exchange({} as ExchangeStart);
  t.equal(names.existing(exchange), undefined);
  t.notOk(exchange.hasSlots);
  t.same(names(exchange), ["a"]);
  t.equal(names.existing(exchange), names(exchange));
  t.equal(slot(() => 1).existing(exchange), undefined);
  t.equal(names.existing({ slots: new Map() }), undefined);
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
