import t from "tap";
import { CredentialCooldowns } from "../../src/upstream/credential-cooldowns.ts";
import { credentialsOf } from "../support/provider.ts";

const [one, other] = credentialsOf("one", "other") as [never, never];

t.test("a credential that must wait rests, and no other", async (t) => {
  const rests = new CredentialCooldowns();
  t.equal(rests.usableAt(one), 0);
  rests.recordWait(one, 0, 5000);
  rests.recordWait(one, 0, 4000);
  t.equal(rests.usableAt(one), 5000);
  t.equal(rests.usableAt(other), 0);
  t.notOk(rests.recordAcceptance(one, 4500), "an answer to an earlier request");
  t.equal(rests.usableAt(one), 5000);
  t.notOk(rests.recordAcceptance(one, 5001));
  t.equal(rests.usableAt(one), 0);
});

t.test(
  "a refused credential rests longer each time, tried by one request each time, until it is accepted",
  async (t) => {
    const rests = new CredentialCooldowns();
    let now = 1000;
    t.ok(rests.recordRefusal(one, now), "that is reported");
    for (const seconds of [30, 60, 120, 240, 300, 300]) {
      t.equal(rests.usableAt(one), now + seconds * 1000);
      now = rests.usableAt(one);
      rests.recordUse(one, now);
      t.ok(rests.usableAt(one) > now, "no other request uses it meanwhile");
      t.notOk(rests.recordRefusal(one, now), "that is not reported");
    }
    t.ok(rests.recordAcceptance(one, now), "that is reported");
    t.equal(rests.usableAt(one), 0);
    t.ok(rests.recordRefusal(one, now));
    t.equal(rests.usableAt(one), now + 30_000);
  },
);

t.test("one that was refused for one caller alone rests anew for all", async (t) => {
  const rests = new CredentialCooldowns();
  let now = 1000;
  t.equal(rests.recordRefusal(one, now, "x"), "caller");
  for (const seconds of [30, 60, 120]) {
    t.same([rests.usableAt(one, "x"), rests.usableAt(one, "y"), rests.usableAt(one)], [now + seconds * 1000, 0, 0]);
    t.same([rests.isRefused(one, "x"), rests.isRefused(one, "y")], [true, false]);
    now = rests.usableAt(one, "x");
    rests.recordUse(one, now, "x");
    t.equal(rests.recordRefusal(one, now, "x"), undefined);
  }
  rests.recordUse(one, now, "y");
  t.equal(rests.usableAt(one, "y"), 0, "others use it without a turn");
  t.equal(rests.recordRefusal(one, now, "y"), "all");
  t.same([rests.usableAt(one, "x"), rests.usableAt(one, "z"), rests.usableAt(one)], Array(3).fill(now + 30_000));
  t.ok(rests.recordAcceptance(one, now, "z"));
  rests.recordRefusal(one, now, "x");
  t.notOk(rests.recordAcceptance(one, now, "y"), "an acceptance that did not concern others is not reported to them");
  t.equal(rests.usableAt(one, "x"), 0);
  rests.recordRefusal(one, now, "x");
  t.ok(rests.recordAcceptance(one, now, "x"), "its own is");
});

t.test("a repeated refusal of a credential that rests for all is not reported", async (t) => {
  const rests = new CredentialCooldowns();
  rests.applyRemote(one, { until: 5000, nextDuration: 60_000 });
  t.equal(rests.recordRefusal(one, 4000, "x"), undefined);
  t.equal(rests.usableAt(one, "y"), 64_000);
});

t.test("whom a refusal applies to after another one, or during a wait", async (t) => {
  const usable = (prepare: (rests: CredentialCooldowns) => void, now: number, caller?: string) => {
    const rests = new CredentialCooldowns();
    prepare(rests);
    return [rests.recordRefusal(one, now, caller), rests.usableAt(one, "x"), rests.usableAt(one, "y")];
  };
  const forAll = (rests: CredentialCooldowns) => rests.recordRefusal(one, 0);
  t.same(usable(forAll, 29_999, "y"), [undefined, 89_999, 89_999], "for all until it is over");
  t.same(usable(forAll, 30_000, "y"), [undefined, 0, 90_000], "and then judged from the start");
  t.same(
    usable((rests) => rests.recordRefusal(one, 0, "x"), 40_000, "y"),
    ["all", 70_000, 70_000],
    "a second caller",
  );
  const tried = (at: number) => (rests: CredentialCooldowns) => {
    forAll(rests);
    rests.recordUse(one, at, "y");
  };
  t.same(usable(tried(30_000), 31_000, "y"), [undefined, 0, 91_000], "the request that tested it");
  t.same(usable(tried(30_000), 31_000, "x"), [undefined, 91_000, 91_000], "not one from before");
  t.same(usable(tried(29_999), 31_000, "y"), [undefined, 91_000, 91_000], "nor one that came too soon");
  const wait = (rests: CredentialCooldowns) => rests.recordWait(one, 0, 5000);
  t.same(usable(wait, 4999, "x"), [undefined, 5000, 5000], "all wait already");
  t.same(usable(wait, 4999), ["all", 34_999, 34_999]);
  t.same(usable(wait, 5000, "x"), ["caller", 35_000, 0]);
});

t.test("a refusal is reported as one for all unless another process has found that before", async (t) => {
  for (const [until, more, news, rest] of [
    [5000, { nextDuration: 60_000, onlyCaller: "x" }, "all", 30_000],
    [5000, { nextDuration: 0 }, "all", 30_000],
    [5000, { nextDuration: 60_000 }, undefined, 60_000],
  ] as const) {
    const rests = new CredentialCooldowns();
    rests.applyRemote(one, { until, ...more });
    t.equal(rests.recordRefusal(one, 5000), news);
    t.equal(rests.usableAt(one), 5000 + rest);
  }
  const rests = new CredentialCooldowns();
  t.equal(rests.recordRefusal(one, 0), "all");
  rests.applyRemote(one, { until: 60_000, nextDuration: 60_000, onlyCaller: "x" });
  t.equal(rests.recordRefusal(one, 60_000, "y"), undefined, "or this one");
});

t.test("others are notified of changes, but not of every few milliseconds", async (t) => {
  const told: (number | undefined)[] = [];
  const rests: CredentialCooldowns = new CredentialCooldowns((credential) => told.push(rests.get(credential)?.until));
  for (let until = 5000; until < 5250; until++) rests.recordWait(one, 0, until);
  t.same(told, [5000, 5100, 5200]);
  t.equal(rests.usableAt(one), 5249);
  rests.recordRefusal(one, 6000);
  rests.recordUse(one, 36_000);
  rests.recordAcceptance(one, 36_001);
  t.same(told.slice(3), [36_000, 66_000, undefined]);
  rests.applyRemote(one, { until: 70_000, nextDuration: 0 });
  t.equal(rests.usableAt(one), 70_000);
  rests.applyRemote(one, undefined);
  t.equal(rests.usableAt(one), 0);
  t.equal(told.length, 6, "a received notification is not passed on");
});

t.test("an operator may have all of them tried at once", async (t) => {
  const told: (number | undefined)[] = [];
  const rests: CredentialCooldowns = new CredentialCooldowns((credential) => told.push(rests.get(credential)?.until));
  rests.recordWait(one, 0, 60_000);
  rests.recordRefusal(other, 1000);
  rests.endAll(2000);
  t.same([rests.usableAt(one), rests.usableAt(other)], [0, 2000]);
  t.equal(rests.get(other)?.nextDuration, 60_000, "it counts as refused until it is accepted");
  t.ok(rests.recordAcceptance(other, 2000));
  rests.recordWait(one, 0, 3000);
  t.same(told, [60_000, 31_000, undefined, 2000, undefined, 3000], "a shorter wait that begins then is reported");
  rests.recordRefusal(other, 3000);
  rests.recordWait(other, 3000, 3_600_000, "x");
  rests.endAll(4000);
  t.equal(rests.usableAt(other, "x"), 4000, "no caller waits for itself");
  rests.recordWait(other, 4000, 10_000);
  t.same(told.splice(6), [33_000, 63_000, undefined, 4000, 14_000]);
});

t.test("a wait is reported to others however long an ended one was", async (t) => {
  const told: (number | undefined)[] = [];
  const rests: CredentialCooldowns = new CredentialCooldowns((credential) => told.push(rests.get(credential)?.until));
  rests.recordWait(one, 0, 60_000);
  rests.applyRemote(one, undefined);
  rests.recordWait(one, 1000, 5000);
  t.same(told.splice(0), [60_000, 6000], "another process has ended it");
  rests.recordRefusal(one, 7000);
  rests.recordWait(one, 8000, 60_000);
  rests.recordAcceptance(one, 9000);
  rests.recordWait(one, 10_000, 5000);
  t.same(told, [37_000, 68_000, undefined, 15_000], "a request has been accepted");
});

t.test("a wait of another process that ends at the same time is not reported once more", async (t) => {
  let told = 0;
  const rests = new CredentialCooldowns(() => told++);
  rests.applyRemote(one, { until: 5000, nextDuration: 0 });
  rests.recordWait(one, 0, 5050);
  t.equal(told, 0);
  rests.recordWait(one, 0, 5100);
  t.equal(told, 1);
});

t.test("a long wait because of one caller is short for all others, until a second caller gets one too", async (t) => {
  const rests = new CredentialCooldowns();
  rests.recordWait(one, 0, 3_600_000, "x");
  t.same([rests.usableAt(one, "x"), rests.usableAt(one, "y")], [3_600_000, 60_000]);
  rests.recordWait(one, 60_000, 3_600_000, "x");
  t.equal(rests.usableAt(one, "y"), 120_000, "the same caller again");
  rests.recordWait(one, 120_000, 3_600_000, "y");
  t.equal(rests.usableAt(one, "z"), 3_720_000);
  rests.recordAcceptance(one, 3_720_000, "z");
  rests.recordWait(one, 0, 3_600_000, "x");
  rests.recordAcceptance(one, 60_000, "y");
  t.equal(rests.usableAt(one, "x"), 0, "another caller's success ends it");
  const others = new CredentialCooldowns();
  others.recordWait(one, 0, 90_000, "x");
  others.recordWait(one, 90_000, 3_600_000, "y");
  t.equal(others.usableAt(one), 150_000, "the first one's wait was over");
  const short = new CredentialCooldowns();
  short.recordWait(one, 0, 60_000, "x");
  short.recordWait(one, 0, 3_600_000, "y");
  t.same([short.usableAt(one, "y"), short.usableAt(one, "x")], [3_600_000, 60_000], "the first one's was short");
  const common = new CredentialCooldowns();
  common.recordWait(one, 0, 120_000);
  t.equal(common.usableAt(one, "x"), 120_000, "one that no caller caused applies to all");
});

t.test("what another process has found leaves a caller its own long wait", async (t) => {
  const rests = new CredentialCooldowns();
  rests.recordWait(one, 0, 3_600_000, "x");
  rests.applyRemote(one, { until: 70_000, nextDuration: 0 });
  t.same([rests.usableAt(one, "x"), rests.usableAt(one, "y")], [3_600_000, 70_000]);
  rests.recordWait(one, 80_000, 3_600_000, "y");
  t.equal(rests.usableAt(one, "z"), 3_680_000, "the second caller's");
  rests.applyRemote(one, undefined);
  t.equal(rests.usableAt(one, "x"), 0);
});
