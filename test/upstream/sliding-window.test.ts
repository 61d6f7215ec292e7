import t from "tap";
import { SlidingWindow } from "../../src/upstream/sliding-window.ts";

t.test("events count for as long as the window, and leave it part by part", async (t) => {
  const window = new SlidingWindow(1000);
  window.add(5000);
  window.add(5450);
  window.mark(5450);
  t.same(window.counts(5999), { total: 2, marked: 1 });
  t.same(window.counts(6050), { total: 1, marked: 1 });
  t.same(window.counts(6500), { total: 0, marked: 0 });
  window.add(90_000);
  t.same(window.counts(90_000), { total: 1, marked: 0 });
  window.clear();
  t.same(window.counts(90_000), { total: 0, marked: 0 });
});

t.test("at any time, it counts what is no older than a window, and nothing older than that and a part", async (t) => {
  for (let round = 0; round < 50; round++) {
    const window = new SlidingWindow(1000);
    const times: number[] = [];
    let now = Math.random() * 1e6;
    for (let i = 0; i < 60; i++) {
      now += Math.random() ** 3 * 700;
      times.push(now);
      window.add(now);
      const { total } = window.counts(now);
      const younger = (ms: number) => times.filter((time) => time > now - ms).length;
      t.ok(total >= younger(900) && total <= younger(1000), `${younger(900)} <= ${total} <= ${younger(1000)}`);
    }
  }
});
