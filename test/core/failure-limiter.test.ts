import t from "tap";
import { FailureLimiter } from "../../src/core/failure-limiter.ts";

t.test("an address may fail so often in a minute; then it is told how long to wait, and no other", async (t) => {
  let now = 0;
  const failures = new FailureLimiter(() => now);
  t.same(
    [1, 2, 3, 4].map(() => failures.add("a", 3)),
    [undefined, undefined, undefined, 60],
  );
  now = 45_500;
  t.equal(failures.add("a", 3), 15);
  t.equal(failures.add("b", 3), undefined);
  now = 60_000;
  t.same(
    [1, 2, 3, 4].map(() => failures.add("a", 3)),
    [undefined, undefined, undefined, 60],
    "a minute later it begins anew",
  );
});

t.test("what an address may do is known without counting", async (t) => {
  let now = 0;
  const failures = new FailureLimiter(() => now);
  t.same([failures.retryAfter("a", 1), failures.count("a")], [undefined, 0]);
  failures.add("a", 1);
  t.same([failures.retryAfter("a", 1), failures.count("a")], [undefined, 1]);
  failures.add("a", 1);
  now = 15_000;
  t.same([failures.retryAfter("a", 1), failures.count("a"), failures.retryAfter("b", 1)], [45, 2, undefined]);
  now = 60_000;
  t.same([failures.retryAfter("a", 1), failures.count("a")], [undefined, 0]);
});

t.test("without a limit nothing is counted", async (t) => {
  const failures = new FailureLimiter();
  for (let i = 0; i < 100; i++) t.equal(failures.add("a", 0), undefined);
  t.equal(failures.size, 0);
});

t.test("any number of addresses takes a bounded place, and those that go on failing are kept", async (t) => {
  const failures = new FailureLimiter();
  failures.add("stubborn", 1);
  for (let i = 0; i < 50_000; i++) {
    failures.add(`address ${i}`, 1);
    if (i % 5000 === 0) failures.add("stubborn", 1);
  }
  t.equal(failures.size, 10_000);
  t.type(failures.add("stubborn", 1), "number");
  t.equal(failures.add("address 0", 1), undefined, "forgotten");
});
