import t from "tap";
import { TargetHealth } from "../../src/upstream/target-health.ts";
import { HEALTH } from "../support/provider.ts";

/** A target with a clock of its own, and what was told of it. */
function watched(limits = {}) {
  const told: number[] = [];
  const watch = { now: 1000 };
  const health = new TargetHealth(
    { ...HEALTH, ...limits },
    () => watch.now,
    (openFor) => told.push(openFor),
  );
  /** Requests that end so, one after another. */
  const ask = (count: number, well: boolean, firstByte = 10) => {
    for (let i = 0; i < count; i++) {
      const request = health.begin();
      if (well) health.recordResponse(request, firstByte);
      else health.recordFailure(request);
      if (well) health.recordWhole(request);
      health.end();
    }
  };
  /** Requests whose answers begin well, and then break off. */
  const breakOff = (count: number, caller?: string) => {
    for (let i = 0; i < count; i++) {
      const request = health.begin();
      health.recordResponse(request, 10, caller);
      health.recordBroken(request, caller);
      health.end();
    }
  };
  return { health, ask, breakOff, watch, told };
}

t.test("five failures in a row open it for 30 s; then one probe is let through, and closes it", async (t) => {
  const { health, ask, watch, told } = watched();
  ask(4, false);
  ask(1, true);
  ask(4, false);
  t.ok(health.isUsable);
  ask(1, false);
  t.notOk(health.isUsable);
  watch.now += 29_999;
  t.notOk(health.isUsable);
  watch.now += 1;
  t.ok(health.isUsable);
  const probe = health.begin();
  t.notOk(health.isUsable, "only one probe");
  health.recordResponse(probe, 5);
  health.recordWhole(probe);
  t.ok(health.isUsable);
  ask(1, true);
  t.same(told, [30_000, 0]);
  ask(4, false);
  t.ok(health.isUsable, "earlier results are forgotten");
});

t.test(
  "clients that disconnect after longer than `slow` count as slow responses; earlier ones, and without `slow`, do not count",
  async (t) => {
    const leave = ({ health }: ReturnType<typeof watched>, count: number, waited: number) => {
      for (let i = 0; i < count; i++) {
        health.recordClientLeft(health.begin(), waited);
        health.end();
      }
    };
    const slow = watched({ slow: 3000, requests: 20, errors: 0.5, failures: 5 });
    leave(slow, 40, 3000);
    t.same(slow.health.condition.recent, { requests: 0, failed: 0 });
    leave(slow, 19, 5000);
    t.ok(slow.health.isUsable, "a few clients switch nothing off, however they hurry");
    leave(slow, 1, 5000);
    t.notOk(slow.health.isUsable);
    slow.watch.now += 30_000;
    leave(slow, 1, 100);
    t.ok(slow.health.isUsable, "a probe whose client does not wait is inconclusive");
    leave(slow, 1, 5000);
    t.notOk(slow.health.isUsable, "an unanswered one is not a success");
    const mixed = watched({ slow: 3000, requests: 20, errors: 0.5 });
    mixed.ask(15, true);
    leave(mixed, 14, 5000);
    t.ok(mixed.health.isUsable, "among timely answers a share of them is needed");
    const off = watched();
    leave(off, 100, 500_000);
    t.same(off.told, []);
    const longer = watched({ slow: 3000, longest: 45_000 });
    longer.ask(5, false);
    longer.watch.now += 30_000;
    leave(longer, 1, 5000);
    t.same(longer.told, [30_000, 45_000], "as a probe such a client opens it for twice as long, within the limit");
  },
);

t.test(
  "a probe that fails opens it for twice as long, up to five minutes; an inconclusive one makes way for another",
  async (t) => {
    const { health, ask, watch, told } = watched({ longest: 300_000 });
    ask(5, false);
    for (const openFor of [30, 60, 120, 240, 300, 300]) {
      t.equal(told.at(-1), openFor * 1000);
      watch.now += openFor * 1000;
      health.recordInconclusive(health.begin());
      health.end();
      t.ok(health.isUsable);
      ask(1, false);
    }
  },
);

t.test("more than half of twenty within 30 s open it, though never five in a row", async (t) => {
  const { ask, watch, told } = watched();
  const mixed = () => {
    ask(2, false);
    ask(1, true);
  };
  for (let i = 0; i < 6; i++) mixed();
  t.same(told, []);
  mixed();
  t.same(told, [30_000]);
  const slowly = watched();
  for (let i = 0; i < 20; i++) {
    slowly.ask(2, false);
    slowly.ask(1, true);
    slowly.watch.now += 5000;
  }
  t.same(slowly.told, [], "these are too few at a time");
  t.ok(watch.now > 0);
});

t.test("answers that break off, and first bytes that are too slow, count as failures in the share", async (t) => {
  for (const way of ["broken", "slow"]) {
    const { ask, breakOff, told } = watched({ slow: 1000, failures: 100 });
    for (let i = 0; i < 19; i++)
      if (way === "slow") ask(1, true, 1001);
      else breakOff(1);
    t.same(told, [], way);
    ask(1, true, 1001);
    t.same(told, [30_000], way);
  }
});

t.test("an answer that begins in time suspends nothing, whatever the requests of another key did before", async (t) => {
  const { health, breakOff, watch, told } = watched({ slow: 1000, failures: 2 });
  const begin = () => health.recordResponse(health.begin(), 10, "one");
  begin();
  breakOff(2, "other");
  t.same(told, [], "they alone failed");
  watch.now += 31_000;
  begin();
  t.same(told, []);
  breakOff(1, "one");
  t.same(told, [30_000]);
});

t.test("five answers in a row that begin well and break off open it; one that ends whole ends the row", async (t) => {
  const { health, ask, breakOff, told } = watched();
  breakOff(4);
  ask(1, true);
  breakOff(3);
  ask(1, false);
  for (let i = 0; i < 9; i++) health.recordResponse(health.begin(), 10);
  t.ok(health.isUsable, "a head alone is neither a failure");
  breakOff(1);
  t.notOk(health.isUsable, "nor a success");
  t.same(told, [30_000]);
});

t.test("a probe is over when its answer is: one that breaks off opens it for twice as long", async (t) => {
  const { health, ask, breakOff, watch, told } = watched({ longest: 60_000 });
  ask(5, false);
  watch.now += 30_000;
  const probe = health.begin();
  health.recordResponse(probe, 5);
  t.match(health.condition, { state: "half-open", remaining: 0 });
  t.notOk(health.isUsable, "its answer is not whole");
  health.recordInconclusive(probe);
  t.ok(health.isUsable, "its client has left: another one may probe");
  breakOff(1);
  t.same(told, [30_000, 60_000]);
});

t.test("only the probe, and requests that began after it, show whether a target has recovered", async (t) => {
  const opened = (limits = {}) => {
    const target = watched(limits);
    const old = target.health.begin();
    target.health.recordResponse(old, 5);
    target.ask(5, false);
    target.watch.now += 30_000;
    const probe = target.health.begin();
    return { ...target, old, probe };
  };
  for (const end of ["recordWhole", "recordBroken", "recordInconclusive", "recordFailure"] as const) {
    const { health, told, old, probe } = opened();
    for (const head of [false, true]) {
      if (head) health.recordResponse(probe, 5);
      health[end](old);
      t.notOk(health.isUsable, `${end}: the end of an older request leaves the probe alone`);
    }
    t.same(told, [30_000]);
    health.recordWhole(probe);
    t.same(told, [30_000, 0]);
  }
  const impatient = opened({ slow: 3000 });
  impatient.health.recordClientLeft(impatient.old, 5000);
  t.same(impatient.told, [30_000], "nor does its client that has not waited for it");
  const answered = opened();
  answered.health.recordResponse(answered.old, 5);
  answered.watch.now += 5000;
  t.notOk(answered.health.isUsable, "the head of an older answer is not the probe's");
  const forced = opened();
  const later = forced.health.begin();
  forced.health.recordInconclusive(later);
  t.notOk(forced.health.isUsable, "the probe still runs");
  forced.health.recordResponse(later, 5);
  forced.health.recordWhole(later);
  t.same(forced.told, [30_000, 0], "a whole answer to a newer request is as good as the probe's");
  const failing = opened({ longest: 60_000 });
  failing.health.recordFailure(failing.health.begin());
  t.same(failing.told, [30_000, 60_000], "and a failure as bad");
});

t.test("a probe whose answer runs for 5 s closes it, until the next failure", async (t) => {
  const { health, ask, breakOff, watch, told } = watched();
  ask(5, false);
  watch.now += 30_000;
  health.recordResponse(health.begin(), 5);
  watch.now += 4999;
  t.notOk(health.isUsable);
  watch.now += 1;
  t.ok(health.isUsable);
  health.begin();
  t.same([health.condition.state, told], ["closed", [30_000, 0]]);
  t.ok(health.isUsable, "for more than one");
  breakOff(1);
  t.same(told, [30_000, 0, 30_000], "no answer had ended whole");
  watch.now += 30_000;
  const probe = health.begin();
  health.recordResponse(probe, 5);
  watch.now += 5000;
  health.begin();
  health.recordWhole(probe);
  breakOff(4);
  t.ok(health.isUsable, "an answer has ended whole");
});

t.test(
  "one more failure opens it again after such a probe, also where a share of failures had opened it",
  async (t) => {
    const { health, ask, breakOff, watch, told } = watched({ errors: 0.5, requests: 4, failures: 5 });
    for (let i = 0; i < 3; i++) {
      ask(1, false);
      ask(1, i === 2);
    }
    t.same(told, [30_000]);
    watch.now += 30_000;
    health.recordResponse(health.begin(), 5);
    watch.now += 5000;
    health.begin();
    breakOff(1);
    t.same(told, [30_000, 0, 30_000]);
  },
);

t.test("answers to one caller that break off do not open it while another one uses it", async (t) => {
  const { health, breakOff } = watched();
  health.recordResponse(health.begin(), 10, "other");
  breakOff(20, "one");
  t.ok(health.isUsable);
  breakOff(1, "other");
  t.notOk(health.isUsable);
});

t.test("once it is well again, whoever found that, earlier failures count no more in the share", async (t) => {
  for (const finder of ["a probe here", "another process"]) {
    const { health, ask, watch, told } = watched({ ...{ errors: 0.5, requests: 4, failures: 100 }, open: 5000 });
    ask(4, false);
    t.same(told, [5000]);
    watch.now += 5000;
    if (finder === "another process") health.applyRemote({ time: 0, remaining: 0 });
    else ask(1, true);
    ask(3, false);
    t.ok(health.isUsable, finder);
  }
});

t.test("with `errors: 0` no share of failures opens it", async (t) => {
  const { ask, told } = watched({ errors: 0, requests: 4, failures: 100 });
  ask(99, false);
  t.same(told, []);
});

t.test("a late result of a request from before it opened changes nothing", async (t) => {
  const { ask, told } = watched();
  ask(9, false);
  ask(1, true);
  t.same(told, [30_000]);
  const slow = watched({ slow: 1000, requests: 1 });
  slow.ask(9, true, 1001);
  t.same(slow.told, [30_000]);
});

t.test("its load is its time to the first byte, multiplied by its running requests, and is forgotten", async (t) => {
  const { health, ask, watch } = watched();
  t.equal(health.load, 0);
  ask(1, true, 100);
  t.equal(health.load, 100);
  ask(20, true, 200);
  t.ok(health.load > 190 && health.load < 200);
  health.begin();
  t.ok(health.load > 390 && health.load < 400);
  health.end();
  watch.now += 30_000;
  t.ok(health.load > 60 && health.load < 80);
  ask(1, true, 50);
  t.ok(health.load > 50);
  watch.now += 30_001;
  ask(1, true, 20);
  t.equal(health.load, 20, "what was measured so long ago does not count at all");
});

t.test("errors, which come fast, increase its load, and an answer decreases it again", async (t) => {
  const { health, ask, watch } = watched();
  const refuse = (count: number) => {
    for (let i = 0; i < count; i++) {
      health.recordResponse(health.begin(), 1, undefined, true);
      health.end();
    }
  };
  refuse(1);
  t.equal(health.load, 60_000, "one that has only sent errors comes last");
  t.equal(health.condition.firstByte, undefined);
  ask(1, true, 100);
  t.equal(health.load, 100, "its first answer counts alone");
  refuse(1);
  t.equal(health.load, 130);
  refuse(50);
  t.ok(health.load > 30_000 && health.load <= 60_000);
  ask(20, true, 100);
  t.ok(health.load < 200);
  refuse(50);
  watch.now += 300_000;
  t.ok(health.load < 5, "without responses they are forgotten");
});

t.test(
  "an operator may have it tried at once: the next request is the probe, and a failure opens it again",
  async (t) => {
    const { health, ask, told } = watched();
    health.probeNow();
    t.equal(health.condition.state, "closed", "one in regular use stays closed");
    ask(5, false);
    t.notOk(health.isUsable);
    health.probeNow();
    t.ok(health.isUsable);
    t.match(health.condition, { state: "half-open", remaining: 0 });
    const probe = health.begin();
    t.notOk(health.isUsable, "by one request");
    health.probeNow();
    t.notOk(health.isUsable, "which runs already");
    health.recordFailure(probe);
    t.equal(health.condition.state, "open");
    health.probeNow();
    ask(1, true);
    t.equal(health.condition.state, "closed");
    t.same(told, [30_000, 30_000, 0]);
  },
);

t.test(
  "failures of one caller's requests alone do not open it while another one uses it; one of theirs does",
  async (t) => {
    const { health, watch } = watched({ window: 60_000 });
    health.recordResponse(health.begin(), 10, "other");
    watch.now += 60_000;
    for (let i = 0; i < 20; i++) health.recordFailure(health.begin(), "one");
    t.ok(health.isUsable);
    health.recordFailure(health.begin(), "other");
    t.notOk(health.isUsable, "it fails for both");
  },
);

t.test("failures of the only caller within the window open it, and so do those that no request caused", async (t) => {
  const alone = watched({ window: 60_000 });
  alone.health.recordResponse(alone.health.begin(), 10, "other");
  alone.watch.now += 60_001;
  for (let i = 0; i < 5; i++) alone.health.recordFailure(alone.health.begin(), "one");
  t.notOk(alone.health.isUsable);
  const unreachable = watched({ window: 60_000 });
  unreachable.health.recordResponse(unreachable.health.begin(), 10, "other");
  for (let i = 0; i < 4; i++) unreachable.health.recordFailure(unreachable.health.begin(), "one");
  t.ok(unreachable.health.isUsable);
  unreachable.health.recordFailure(unreachable.health.begin());
  t.notOk(unreachable.health.isUsable);
  const shared = watched({ window: 60_000 });
  for (const caller of ["one", "other"]) shared.health.recordResponse(shared.health.begin(), 10, caller);
  for (let i = 0; i < 5; i++) shared.health.recordFailure(shared.health.begin());
  t.notOk(shared.health.isUsable, "also where several callers use it");
});

t.test("a share of failures of one caller alone does not open it either; with another one's it does", async (t) => {
  const { health } = watched({ errors: 0.5, requests: 20, failures: 100 });
  for (let i = 0; i < 40; i++)
    if (i % 4 === 0) health.recordResponse(health.begin(), 10, "other");
    else health.recordFailure(health.begin(), "one");
  t.ok(health.isUsable);
  health.recordFailure(health.begin(), "other");
  t.notOk(health.isUsable);
});

t.test("what another process finds holds here for at most the `longest` of this configuration", async (t) => {
  const { health, watch } = watched({ longest: 60_000 });
  health.applyRemote({ time: 300_000, remaining: 300_000 });
  t.same(health.openTime, { time: 60_000, remaining: 60_000 });
  watch.now += 60_000;
  t.ok(health.isUsable);
});

t.test(
  "a probe counts no more once another process has judged the target, and does while that one only probes",
  async (t) => {
    const probing = (time: number) => {
      const target = watched({ longest: 300_000 });
      target.ask(5, false);
      target.watch.now += 30_000;
      const probe = target.health.begin();
      target.health.recordResponse(probe, 5);
      target.health.applyRemote({ time, remaining: time });
      return { ...target, probe };
    };
    const failed = probing(60_000);
    failed.health.recordBroken(failed.probe);
    t.same([failed.told, failed.health.openTime.time], [[30_000], 60_000], "its failure is the same one");
    failed.watch.now += 5000;
    t.notOk(failed.health.isUsable, "nor does its answer, however long it runs");
    const closed = probing(0);
    closed.health.recordWhole(closed.probe);
    t.same([closed.told, closed.health.isUsable], [[30_000], true]);
    const same = probing(30_000);
    same.health.recordBroken(same.probe);
    t.same(same.told, [30_000, 60_000]);
  },
);
