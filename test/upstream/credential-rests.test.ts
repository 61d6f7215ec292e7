import t from "tap";
import { CredentialRests } from "../../src/upstream/credential-rests.ts";
import { credentialsOf } from "../support/provider.ts";

const [one, other] = credentialsOf("one", "other") as [never, never];

t.test("one that is asked to wait waits, and no other", async (t) => {
  const rests = new CredentialRests();
  t.equal(rests.until(one), 0);
  rests.cool(one, 0, 5000);
  rests.cool(one, 0, 4000);
  t.equal(rests.until(one), 5000);
  t.equal(rests.until(other), 0);
  t.notOk(rests.accept(one, 4500), "an answer to an earlier request");
  t.equal(rests.until(one), 5000);
  t.notOk(rests.accept(one, 5001));
  t.equal(rests.until(one), 0);
});

t.test("one that is refused rests ever longer, tried by one request each time, until it is accepted", async (t) => {
  const rests = new CredentialRests();
  let now = 1000;
  t.ok(rests.refuse(one, now), "that is news");
  for (const seconds of [30, 60, 120, 240, 300, 300]) {
    t.equal(rests.until(one), now + seconds * 1000);
    now = rests.until(one);
    rests.show(one, now);
    t.ok(rests.until(one) > now, "nobody else shows it meanwhile");
    t.notOk(rests.refuse(one, now), "that is no news");
  }
  t.ok(rests.accept(one, now), "that is news");
  t.equal(rests.until(one), 0);
  t.ok(rests.refuse(one, now));
  t.equal(rests.until(one), now + 30_000);
});

t.test("one that was refused for one caller alone rests anew for all", async (t) => {
  const rests = new CredentialRests();
  let now = 1000;
  t.equal(rests.refuse(one, now, "x"), "caller");
  for (const seconds of [30, 60, 120]) {
    t.same([rests.until(one, "x"), rests.until(one, "y"), rests.until(one)], [now + seconds * 1000, 0, 0]);
    t.same([rests.refused(one, "x"), rests.refused(one, "y")], [true, false]);
    now = rests.until(one, "x");
    rests.show(one, now, "x");
    t.equal(rests.refuse(one, now, "x"), undefined);
  }
  rests.show(one, now, "y");
  t.equal(rests.until(one, "y"), 0, "others show it without a turn");
  t.equal(rests.refuse(one, now, "y"), "all");
  t.same([rests.until(one, "x"), rests.until(one, "z"), rests.until(one)], Array(3).fill(now + 30_000));
  t.ok(rests.accept(one, now, "z"));
  rests.refuse(one, now, "x");
  t.notOk(rests.accept(one, now, "y"), "of what was no matter of others it is no news for them");
  t.equal(rests.until(one, "x"), 0);
});

t.test("what is heard to rest for all is no news when it is refused again", async (t) => {
  const rests = new CredentialRests();
  rests.learn(one, { until: 5000, next: 60_000 });
  t.equal(rests.refuse(one, 4000, "x"), undefined);
  t.equal(rests.until(one, "y"), 64_000);
});

t.test("others are told of what changes, but not of every few milliseconds", async (t) => {
  const told: (number | undefined)[] = [];
  const rests: CredentialRests = new CredentialRests((credential) => told.push(rests.of(credential)?.until));
  for (let until = 5000; until < 5250; until++) rests.cool(one, 0, until);
  t.same(told, [5000, 5100, 5200]);
  t.equal(rests.until(one), 5249);
  rests.refuse(one, 6000);
  rests.show(one, 36_000);
  rests.accept(one, 36_001);
  t.same(told.slice(3), [36_000, 66_000, undefined]);
  rests.learn(one, { until: 70_000, next: 0 });
  t.equal(rests.until(one), 70_000);
  rests.learn(one, undefined);
  t.equal(rests.until(one), 0);
  t.equal(told.length, 6, "what was heard is not told on");
});

t.test("somebody may want all of them tried at once", async (t) => {
  const told: (number | undefined)[] = [];
  const rests: CredentialRests = new CredentialRests((credential) => told.push(rests.of(credential)?.until));
  rests.cool(one, 0, 60_000);
  rests.refuse(other, 1000);
  rests.hurry(2000);
  t.same([rests.until(one), rests.until(other)], [0, 2000]);
  t.equal(rests.of(other)?.next, 60_000, "it counts as refused until it is accepted");
  t.ok(rests.accept(other, 2000));
  rests.cool(one, 0, 3000);
  t.same(told, [60_000, 31_000, undefined, 2000, undefined, 3000], "a shorter wait that begins then is news");
});

t.test(
  "a long wait because of one caller is short for all others, until a second caller is asked for one too",
  async (t) => {
    const rests = new CredentialRests();
    rests.cool(one, 0, 3_600_000, "x");
    t.same([rests.until(one, "x"), rests.until(one, "y")], [3_600_000, 60_000]);
    rests.cool(one, 60_000, 3_600_000, "x");
    t.equal(rests.until(one, "y"), 120_000, "the same caller again");
    rests.cool(one, 120_000, 3_600_000, "y");
    t.equal(rests.until(one, "z"), 3_720_000);
    rests.accept(one, 3_720_000, "z");
    rests.cool(one, 0, 3_600_000, "x");
    rests.accept(one, 60_000, "y");
    t.equal(rests.until(one, "x"), 0, "another caller's success ends it");
    const others = new CredentialRests();
    others.cool(one, 0, 90_000, "x");
    others.cool(one, 90_000, 3_600_000, "y");
    t.equal(others.until(one), 150_000, "the first one's wait was over");
  },
);
