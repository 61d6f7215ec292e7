import t from "tap";
import { WrongKeyLimiter } from "../../../plugins/auth/wrong-key-limiter.ts";

t.test(
  "an address may fail a number of times per minute; then it must wait for the time given, and no other address must",
  async (t) => {
    let now = 0;
    const failures = new WrongKeyLimiter(3, () => now);
    t.same(
      [1, 2, 3, 4].map(() => failures.add("a")),
      [undefined, undefined, undefined, 60],
    );
    now = 45_500;
    t.equal(failures.add("a"), 15);
    t.equal(failures.add("b"), undefined);
    now = 60_000;
    t.same(
      [1, 2, 3, 4].map(() => failures.add("a")),
      [undefined, undefined, undefined, 60],
      "a minute later it starts again",
    );
  },
);

t.test("without a limit nothing is counted", async (t) => {
  const failures = new WrongKeyLimiter(0);
  for (let i = 0; i < 100; i++) t.equal(failures.add("a"), undefined);
  t.equal(failures.size, 0);
});

t.test("any number of addresses takes limited memory, and those that continue to fail are remembered", async (t) => {
  const failures = new WrongKeyLimiter(1);
  failures.add("stubborn");
  for (let i = 0; i < 50_000; i++) {
    failures.add(`address ${i}`);
    if (i % 5000 === 0) failures.add("stubborn");
  }
  t.equal(failures.size, 10_000);
  t.type(failures.add("stubborn"), "number");
  t.equal(failures.add("address 0"), undefined, "forgotten");
});
