import t from "tap";
import { RateWindow } from "../../src/store/rate-window.ts";

/** Unix milliseconds, at the beginning of a second. */
const START = 1_790_000_000_000;

t.test("no minute, wherever it begins, has more than the sum", async (t) => {
  const window = new RateWindow();
  const times: number[] = [];
  let random = 7;
  for (let now = START; now < START + 400_000; now += 1 + (random % 700)) {
    random = (random * 48_271) % 2_147_483_647;
    if (window.sum(now) < 50) {
      window.add(now, 1);
      times.push(now);
    }
  }
  t.ok(times.length > 250, `${times.length} passed`);
  for (const [i, time] of times.entries())
    if (times[i + 50] !== undefined) t.ok((times[i + 50] as number) - time > 60_000, "the 51st comes a minute later");
});

t.test("an amount leaves the window a minute after it came, to the second", async (t) => {
  const window = new RateWindow();
  window.add(START + 999, 5);
  window.add(START + 30_000, 7);
  t.equal(window.sum(START + 60_999), 12);
  t.equal(window.sum(START + 61_000), 7);
  t.equal(window.sum(START + 91_000), 0);
  t.equal(window.sum(START + 9_000_000), 0);
});

t.test("an amount is corrected in the second it came in, and one that has left the window is not", async (t) => {
  const window = new RateWindow();
  window.add(START, 100);
  window.add(START + 10_000, 10);
  window.correct(START + 20_000, START, -70);
  t.equal(window.sum(START + 20_000), 40);
  t.equal(window.sum(START + 61_000), 10, "a corrected amount expires with its second");
  window.correct(START + 61_000, START, -30);
  t.equal(window.sum(START + 61_000), 10);
  window.correct(START + 65_000, START, -30);
  t.equal(window.sum(START + 65_000), 10);
  window.correct(START + 65_000, START + 40_000, 5);
  t.equal(window.timeUntilEmpty(START + 65_000), 36_000);
});

t.test("the wait is until enough has left the window", async (t) => {
  const window = new RateWindow();
  window.add(START, 4);
  window.add(START + 10_000, 4);
  const now = START + 20_500;
  t.equal(window.timeUntilRoom(now, 2, 10), 0);
  t.equal(window.timeUntilRoom(now, 3, 10), 40_500);
  t.equal(window.timeUntilRoom(now, 6, 10), 40_500, "as soon as it just fits");
  t.equal(window.timeUntilRoom(now, 7, 10), 50_500);
  t.equal(window.timeUntilRoom(now, 11, 10), undefined, "it never fits");
  t.equal(window.timeUntilEmpty(now), 50_500);
  t.equal(window.timeUntilRoom(START + 65_000, 6, 10), 0, "it is there meanwhile");
  t.equal(window.timeUntilEmpty(START + 75_000), 0);
  t.equal(new RateWindow().timeUntilEmpty(now), 0);
  const burst = new RateWindow();
  burst.add(now, 10);
  t.equal(burst.timeUntilRoom(now, 1, 10), 60_500, "all of it came in this second");
  t.equal(burst.timeUntilRoom(now, 10, 10), 60_500, "as much as the limit fits, too");
});

t.test("a correction expires with what it corrects", async (t) => {
  const window = new RateWindow();
  window.add(START + 500, 10);
  window.correct(START + 1000, START + 500, -6);
  t.equal(window.sum(START + 60_999), 4);
  t.equal(window.sum(START + 61_000), 0);
});

t.test("a clock that is set back loses nothing", async (t) => {
  const window = new RateWindow();
  window.add(START, 4);
  window.add(START - 5000, 4);
  t.equal(window.sum(START - 5000), 8);
  t.equal(window.sum(START + 1000), 8);
  t.equal(window.sum(START + 61_000), 0);
});

t.test("a clock that is set back by an hour continues to count: additions expire a minute later", async (t) => {
  const window = new RateWindow();
  const [before, after] = [7_200_500, 3_600_500];
  window.add(before - 30_000, 2);
  window.add(before, 5);
  t.equal(window.sum(after), 7);
  window.correct(after, before, -1);
  t.equal(window.sum(after), 6, "earlier additions can still be corrected");
  t.equal(window.timeUntilEmpty(after), 60_500);
  t.equal(window.sum(after + 30_400), 6, "each keeps its age");
  t.equal(window.sum(after + 31_000), 4);
  t.equal(window.timeUntilRoom(after + 31_000, 1, 4), 29_500);
  t.equal(window.sum(after + 61_000), 0);
});
