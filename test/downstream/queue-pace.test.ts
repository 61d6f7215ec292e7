import t from "tap";
import { QueuePace } from "../../src/downstream/queue-pace.ts";

/** A pace, and a turn that serves a request so much later. */
function made() {
  const pace = new QueuePace();
  let now = 0;
  const turn = (time: number): void => {
    now += time;
    pace.beginTurn(now);
    pace.countServed();
  };
  return { pace, turn };
}

t.test("it is the time between two served requests, as long as others wait", async (t) => {
  const pace = new QueuePace();
  t.equal(pace.each, 0, "unknown");
  pace.beginTurn(100);
  t.equal(pace.each, 0);
  for (let i = 0; i < 5; i++) pace.countServed();
  pace.beginTurn(110);
  t.equal(pace.each, 2);
  pace.beginTurn(150);
  t.equal(pace.each, 2, "a turn that serves no request does not count");
});

t.test("time in which no request waits does not count", async (t) => {
  const pace = new QueuePace();
  pace.beginTurn(0);
  pace.countServed();
  pace.beginTurn(2);
  pace.countServed();
  pace.reset();
  pace.beginTurn(5000);
  pace.countServed();
  pace.beginTurn(5002);
  t.equal(pace.each, 2);
});

t.test("one long turn does not count as the usual pace, several do", async (t) => {
  const { pace, turn } = made();
  for (let i = 0; i < 20; i++) turn(1);
  turn(6);
  t.equal(Math.round(pace.each), 2);
  for (let i = 0; i < 30; i++) turn(6);
  t.equal(Math.round(pace.each), 6);
});

t.test("it is known after three turns, and begins anew when the queue was empty", async (t) => {
  const { pace, turn } = made();
  for (let i = 0; i < 20; i++) turn(10);
  t.equal(pace.isKnown, true);
  pace.reset();
  t.equal(pace.isKnown, false);
  turn(0);
  turn(2);
  t.same([pace.each, pace.isKnown], [2, false], "earlier requests do not count");
  turn(2);
  turn(5);
  t.same([pace.each, pace.isKnown], [3, true]);
});
