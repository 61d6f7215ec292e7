import t from "tap";
import { QueuePace } from "../../src/downstream/queue-pace.ts";

t.test("it is the time between two that are served, as long as others wait", async (t) => {
  const pace = new QueuePace();
  t.equal(pace.each, 0, "nobody knows");
  pace.turn(100);
  t.equal(pace.each, 0);
  for (let i = 0; i < 5; i++) pace.served();
  pace.turn(110);
  t.equal(pace.each, 2);
  pace.turn(150);
  t.equal(pace.each, 2, "a turn that serves nobody says nothing");
});

t.test("the time in which nobody waits is nobody's", async (t) => {
  const pace = new QueuePace();
  pace.turn(0);
  pace.served();
  pace.turn(2);
  pace.served();
  pace.rest();
  pace.turn(5000);
  pace.served();
  pace.turn(5002);
  t.equal(pace.each, 2);
});

t.test("one long turn is not what all are like, and many are", async (t) => {
  const pace = new QueuePace();
  let now = 0;
  const turn = (time: number): void => {
    now += time;
    pace.turn(now);
    pace.served();
  };
  for (let i = 0; i < 20; i++) turn(1);
  turn(6);
  t.equal(Math.round(pace.each), 2);
  for (let i = 0; i < 30; i++) turn(6);
  t.equal(Math.round(pace.each), 6);
});
