import t from "tap";
import { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import type { Provider, Target } from "../../src/core/marketplace.ts";
import { Health } from "../../src/upstream/health.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { MemoryLog } from "../support/gateway.ts";
import { credentialsOf, providerOf } from "../support/provider.ts";
import { tiny } from "../support/tiny.ts";

/** What attempts have besides their target. */
const start = { protocol: tiny, method: "POST", headers: new HeaderList(), body: Body.empty, startedAt: 0 };

function watched(keep = 0.5) {
  const log = new MemoryLog();
  const watch = { now: 1000 };
  const health = new Health(keep, log, () => watch.now);
  /** An attempt that is answered so. */
  const ask = (target: Target, status: number, wait?: number, caller?: string) => {
    const attempt = new Attempt({ target, ...start, ...(caller !== undefined && { caller }) });
    attempt.credential = health.credential(target, undefined, caller);
    attempt.status = status;
    const run = health.recordStart(attempt);
    if (status === 0) health.recordNoResponse(attempt, true);
    else health.recordResponse(attempt, status, wait, 10);
    if (status === 200) health.recordEnd(attempt, "whole");
    run.end();
    return attempt.credential?.label;
  };
  const fail = (target: Target) => {
    for (let i = 0; i < 5; i++) ask(target, i % 2 === 0 ? 503 : 0);
  };
  return { health, ask, fail, watch, log };
}

const targetOf = (name: string, provider: Partial<Provider> = {}, model = "m"): Target => ({
  provider: providerOf({ name, ...provider }),
  model,
  weight: 1,
});

t.test("targets that fail come last; where all do, half of them stay in use", async (t) => {
  const { health, fail, watch } = watched();
  const targets = ["a", "b", "c", "d"].map((name) => targetOf(name));
  const [a, b, c, d] = targets as [Target, Target, Target, Target];
  t.equal(health.ordered(targets), targets);
  fail(a);
  t.same(health.ordered(targets), [b, c, d, a]);
  watch.now += 1000;
  fail(b);
  t.same(health.candidates(targets), [c, d]);
  watch.now += 1000;
  fail(c);
  t.same(health.candidates(targets), [d], "a single healthy one is enough");
  t.same(health.ordered(targets), [d, a, b, c]);
  fail(d);
  t.same(health.candidates(targets), [a, b], "those that become usable soonest");
  t.same(health.ordered(targets), targets);
  t.same(health.ordered([a]), [a], "a single target is always tried");
  const all = watched(1);
  all.fail(a);
  t.same(all.health.candidates(targets), targets, "with 100 % none is suspended");
});

t.test("targets of one name share their health, for all models they serve", async (t) => {
  const { health, fail, log } = watched();
  fail(targetOf("a"));
  t.notOk(health.isUsable({ ...targetOf("a"), modelId: "another" }));
  t.ok(health.isUsable(targetOf("a", {}, "n")));
  t.match(log.lines, [{ level: "warn", fields: { target: "a:m", seconds: 30 } }]);
});

t.test("an answer from before a target was suspended does not end its probe", async (t) => {
  const { health, fail, watch } = watched();
  const target = targetOf("a");
  const [old, probe] = [new Attempt({ target, ...start }), new Attempt({ target, ...start })];
  health.recordStart(old);
  health.recordResponse(old, 200);
  fail(target);
  watch.now += 30_000;
  health.recordStart(probe);
  health.recordResponse(probe, 200);
  for (const end of ["whole", "unfinished", "broken"] as const) {
    health.recordEnd(old, end);
    t.notOk(health.isUsable(target), end);
  }
  health.recordEnd(probe, "whole");
  t.ok(health.isUsable(target));
});

t.test("credentials take turns; a 429 lets one rest for the given time, at that model", async (t) => {
  const { health, ask, watch } = watched();
  const target = targetOf("p", { credentials: credentialsOf("one", "two", "three") });
  t.same(
    [1, 2, 3, 4].map(() => ask(target, 200)),
    ["one", "two", "three", "one"],
  );
  t.equal(ask(target, 429, 7000), "two");
  t.same(new Set([1, 2, 3, 4].map(() => ask(target, 200))), new Set(["three", "one"]));
  const elsewhere = { ...target, model: "n" };
  t.ok([1, 2, 3].map(() => ask(elsewhere, 200)).includes("two"));
  watch.now += 7000;
  t.ok([1, 2, 3].map(() => ask(target, 200)).includes("two"));
  for (let i = 0; i < 3; i++) ask(target, 429, 60_000 - 10_000 * i);
  t.notOk(health.isUsable(target));
  const [soonest] = [health.credential(target)?.label];
  watch.now += 40_000;
  t.ok(health.isUsable(target));
  t.equal(ask(target, 200), soonest, "where all rest, the one whose rest ends first");
});

t.test(
  "a 401 disables a credential at all models, a 402 or 403 at one, reported once; both are tried again",
  async (t) => {
    for (const [status, elsewhere] of [
      [401, false],
      [402, true],
      [403, true],
    ] as const) {
      const { health, ask, watch, log } = watched();
      const target = targetOf("p", { credentials: credentialsOf("bad") });
      ask(target, status);
      t.notOk(health.isUsable(target));
      t.equal(health.isUsable({ ...target, model: "n" }), elsewhere);
      t.equal(health.credential(target)?.label, "bad", "the last one is used all the same");
      ask(target, status);
      watch.now += 300_000;
      t.ok(health.isUsable(target));
      ask(target, status);
      const errors = () => log.lines.filter(({ level }) => level === "error");
      t.match(errors(), [{ fields: { target: "p:m", credential: "bad", status } }]);
      t.equal(errors().length, 1);
      t.notMatch(JSON.stringify(log.lines), /secret of/);
      watch.now += 300_000;
      ask(target, 200);
      t.ok(health.isUsable(target));
      t.match(log.lines.at(-1), { level: "info", fields: { credential: "bad" } });
    }
  },
);

t.test("repeated failures for one caller do not take the target from others", async (t) => {
  const { health, ask, log } = watched();
  const target = targetOf("p");
  ask(target, 200, undefined, "x");
  for (let i = 0; i < 9; i++) ask(target, 500, undefined, "y");
  t.ok(health.isUsable(target));
  ask(target, 500, undefined, "x");
  t.notOk(health.isUsable(target), "it fails for both");
  t.equal(log.lines.length, 1);
});

t.test("refusals of one caller take no credential from others, until a second one is refused", async (t) => {
  for (const status of [401, 402, 403]) {
    const { health, ask, watch, log } = watched();
    const target = targetOf("p", { credentials: credentialsOf("A") });
    const usable = () => ["x", "y", "z"].map((caller) => health.isUsable(target, caller));
    const errors = () =>
      log.lines.filter(({ level }) => level === "error").map(({ message }) => /for this key/.test(message));
    ask(target, status, undefined, "x");
    t.same(usable(), [false, true, true], "at once for its own caller");
    t.ok(health.isUsable(target));
    t.equal(health.report(target).credentials[0]?.state, "refused");
    for (let i = 0; i < 9; i++) ask(target, status, undefined, "x");
    t.same(usable(), [false, true, true], "however often it sends requests");
    ask(target, 200, undefined, "y");
    t.same(usable(), [true, true, true]);
    ask(target, status, undefined, "x");
    ask(target, 200, undefined, "y");
    ask(target, status, undefined, "z");
    t.same(usable(), [true, true, false], "a success between two refusals parts them");
    t.same(errors(), [true, true, true]);
    ask(target, status, undefined, "y");
    t.same(usable(), [false, false, false]);
    t.same(errors().slice(3), [false]);
    for (let i = 0; i < 9; i++) {
      watch.now += 300_000;
      t.same(usable(), [true, true, true]);
      ask(target, status, undefined, "x");
      t.same(usable(), [false, true, true], "the one that tries it again is alone, too");
    }
    ask(target, status, undefined, "y");
    t.same(usable(), [false, false, false]);
    t.equal(errors().length, 4, "reported once");
    watch.now += 300_000;
    ask(target, 200, undefined, "z");
    t.same(usable(), [true, true, true]);
    t.match(log.lines.at(-1), { level: "info", fields: { credential: "A" } });
  }
});

t.test("while one request tests for all whether a credential is accepted again, no other uses it", async (t) => {
  const { health, ask, watch } = watched();
  const target = targetOf("p", { credentials: credentialsOf("A") });
  for (const caller of ["x", "y"]) ask(target, 401, undefined, caller);
  watch.now += 300_000;
  const probe = new Attempt({ target, ...start, caller: "x" });
  probe.credential = health.credential(target);
  health.recordStart(probe);
  t.notOk(health.isUsable(target, "y"));
});

t.test("a wait that a provider requests applies to all, whoever was refused before or is then", async (t) => {
  const { health, ask, watch } = watched();
  const target = targetOf("p", { credentials: credentialsOf("A") });
  ask(target, 403, undefined, "x");
  ask(target, 429, 60_000, "y");
  ask(target, 403, undefined, "x");
  watch.now += 59_000;
  t.same([health.isUsable(target, "x"), health.isUsable(target, "y")], [false, false]);
  t.ok(health.isOnlyCoolingDown(target, "y"));
  watch.now += 1000;
  t.same([health.isUsable(target, "x"), health.isUsable(target, "y")], [true, true]);
});

t.test("a refusal on an unknown path is a line in the log, and no more", async (t) => {
  const { health, log } = watched();
  const target = targetOf("p", { credentials: credentialsOf("one") });
  for (const caller of ["x", "y"]) {
    const attempt = new Attempt({ target, ...start, caller });
    attempt.credential = health.credential(target);
    attempt.status = 401;
    health.recordPassThrough(attempt, false);
    t.match(log.lines.at(-1), { level: "warn", fields: { credential: "one", status: 401, key: caller } });
    t.ok(health.isUsable(target, caller));
  }
});

t.test("other processes learn the callers for which a credential was refused", async (t) => {
  const [one, other] = [watched(), watched()];
  const target = () => targetOf("a", { credentials: credentialsOf("A") });
  const [here, there] = [target(), target()];
  one.health.share([here], (news) => other.health.applyRemote(JSON.parse(JSON.stringify(news))));
  other.health.share([there], (news) => one.health.applyRemote(JSON.parse(JSON.stringify(news))));
  one.ask(here, 401, undefined, "x");
  t.same([other.health.isUsable(there, "x"), other.health.isUsable(there, "y")], [false, true]);
  other.ask(there, 401, undefined, "y");
  t.same([one.health.isUsable(here, "x"), one.health.isUsable(here, "z")], [false, false]);
});

t.test("an unread response affects a credential only, and of that only by a 401", async (t) => {
  const { health } = watched();
  const target = targetOf("p", { credentials: credentialsOf("one") });
  const start = { protocol: tiny, method: "GET", headers: new HeaderList(), body: Body.empty, startedAt: 0 };
  for (const status of [403, 429, 500, 401]) {
    t.ok(health.isUsable(target));
    const attempt = new Attempt({ target, ...start });
    attempt.credential = health.credential(target);
    attempt.status = status;
    for (let i = 0; i < 9; i++) health.recordPassThrough(attempt);
  }
  t.notOk(health.isUsable(target));
});

t.test("a conversation keeps one credential, the same second one while that rests, and comes back", async (t) => {
  const { health, watch } = watched();
  const target = targetOf("a", { credentials: credentialsOf("A", "B", "C") });
  const shown = (conversation: string) => health.credential(target, conversation)?.label;
  const conversations = Array.from({ length: 60 }, (_, i) => `conversation ${i}`);
  const first = conversations.map(shown);
  t.same([...new Set(first)].sort(), ["A", "B", "C"]);
  for (let i = 0; i < 5; i++) t.same(conversations.map(shown), first);
  const limited = new Attempt({ target, ...start });
  limited.credential = target.provider.credentials[0];
  health.recordStart(limited);
  health.recordResponse(limited, 429, 5000);
  const second = conversations.map(shown);
  t.notOk(second.includes("A"));
  t.same(conversations.map(shown), second);
  for (const [i, label] of first.entries()) if (label !== "A") t.equal(second[i], label, "others stay");
  watch.now += 5001;
  t.same(conversations.map(shown), first);
});

t.test("of targets at rest the one whose rest ends soonest stays in use, with credentials and without", async (t) => {
  for (const credentials of [[], credentialsOf("A")]) {
    const { health, fail, watch } = watched();
    const [a, b] = ["a", "b"].map((name) => targetOf(name, { credentials })) as [Target, Target];
    fail(b);
    watch.now += 1000;
    fail(a);
    t.same(health.ordered([a, b]), [b, a]);
  }
});

t.test("what one process observes of targets and credentials another one learns, and their recovery", async (t) => {
  const [one, other] = [watched(), watched()];
  const target = () => targetOf("a", { credentials: credentialsOf("A", "B") });
  const [here, there] = [target(), target()];
  one.health.share([here], (news) => other.health.applyRemote(JSON.parse(JSON.stringify(news))));
  other.health.share([there], (news) => one.health.applyRemote(JSON.parse(JSON.stringify(news))));
  one.fail(here);
  t.notOk(other.health.isUsable(there));
  t.same([one.log.lines.length, other.log.lines.length], [1, 0], "it is logged once");
  for (const { watch } of [one, other]) watch.now += 30_100;
  t.ok(other.health.isUsable(there));
  const probe = new Attempt({ target: there, ...start });
  probe.credential = other.health.credential(there);
  other.health.recordStart(probe);
  t.notOk(one.health.isUsable(here), "one probe of all");
  other.health.recordResponse(probe, 200);
  t.notOk(one.health.isUsable(here), "its answer is not whole");
  other.health.recordEnd(probe, "whole");
  t.ok(one.health.isUsable(here), "both know that it has recovered");

  const good = one.ask(here, 401) === "A" ? "B" : "A";
  for (let i = 0; i < 4; i++) t.equal(other.ask(there, 200), good);
  t.equal(other.ask(there, 429, 5000), good);
  t.same([one.health.isUsable(here), other.health.isUsable(there)], [false, false]);
  for (const { watch } of [one, other]) watch.now += 5100;
  for (let i = 0; i < 3; i++) t.equal(one.ask(here, 200), good);
  for (const { watch } of [one, other]) watch.now += 25_000;
  for (let i = 0; i < 2; i++) other.ask(there, 200);
  t.same(["A", "B"], [one.ask(here, 200), one.ask(here, 200)].sort(), "the refused one is accepted again");
  one.health.applyRemote({ about: "nobody", until: Date.now() + 1000, time: 1000 });
  one.health.applyRemote({ about: "a:m", credential: "nobody", until: Date.now() + 1000, time: 1000 });
  t.ok(one.health.isUsable(here), "an unknown name changes nothing");
});

t.test(
  "an operator's wish to try a target reaches other processes, and so does the end of a probe without a result",
  async (t) => {
    const [one, other] = [watched(), watched()];
    const [here, there] = [targetOf("a"), targetOf("a")];
    one.health.share([here], (news) => other.health.applyRemote(news));
    other.health.share([there], (news) => one.health.applyRemote(news));
    one.fail(here);
    t.notOk(other.health.isUsable(there));
    one.health.tryNow({ provider: "a" });
    t.ok(other.health.isUsable(there));
    const probe = new Attempt({ target: there, ...start });
    other.health.recordStart(probe);
    t.notOk(one.health.isUsable(here), "one probe of all");
    other.health.recordEnd(probe, "unfinished");
    t.ok(one.health.isUsable(here));
  },
);

t.test("failures before another process found a target well do not count", async (t) => {
  const [one, other] = [watched(), watched()];
  const [here, there] = [targetOf("a"), targetOf("a")];
  other.health.share([there], (news) => one.health.applyRemote(news));
  for (let i = 0; i < 4; i++) one.ask(here, 503);
  other.fail(there);
  other.watch.now += 30_000;
  other.ask(there, 200);
  for (let i = 0; i < 4; i++) one.ask(here, 503);
  t.ok(one.health.isUsable(here));
  one.ask(here, 503);
  t.notOk(one.health.isUsable(here));
});

t.test(
  "two processes that begin to test a target at the same moment both learn from a test that succeeds",
  async (t) => {
    for (const first of [0, 1]) {
      const watches = [watched(), watched()];
      const healths = watches.map(({ health }) => health);
      const targets = healths.map(() => targetOf("a"));
      /** What the processes have sent each other, and has not arrived yet. */
      const sent: (() => void)[] = [];
      for (const [i, health] of healths.entries())
        health.share([targets[i] as Target], (news) => sent.push(() => healths[1 - i]?.applyRemote(news)));
      const deliver = () => {
        for (const arrive of sent.splice(0)) arrive();
      };
      watches[0]?.fail(targets[0] as Target);
      deliver();
      for (const { watch } of watches) watch.now += 30_100;
      const probes = targets.map((target) => new Attempt({ target, ...start }));
      for (const [i, probe] of probes.entries()) healths[i]?.recordStart(probe);
      deliver();
      t.same(
        healths.map((health, i) => health.isUsable(targets[i] as Target)),
        [false, false],
        "one request of each tests it",
      );
      healths[first]?.recordResponse(probes[first] as Attempt, 200);
      healths[first]?.recordEnd(probes[first] as Attempt, "whole");
      deliver();
      t.same(
        healths.map((health, i) => health.isUsable(targets[i] as Target)),
        [true, true],
      );
    }
  },
);

t.test("the status shows the health of a target and its credentials", async (t) => {
  const { health, ask, fail, watch } = watched();
  const target = targetOf("acme", { credentials: credentialsOf("ONE", "TWO") });
  t.match(health.report(target), { state: "closed", remaining: 0, inFlight: 0, recent: { requests: 0, failed: 0 } });
  t.equal(health.report(target).firstByte, undefined);
  ask(target, 200);
  t.match(health.report(target), { firstByte: 10, recent: { requests: 1, failed: 0 } });
  const refused = ask(target, 401);
  const waiting = ask(target, 429, 5000);
  t.not(refused, waiting);
  t.same(
    new Set(health.report(target).credentials.map(({ label, state, remaining }) => `${label} ${state} ${remaining}`)),
    new Set([`${refused} refused 30000`, `${waiting} waiting 5000`]),
  );
  fail(target);
  t.match(health.report(target), { state: "open", remaining: 30_000, recent: { failed: 5 } });
  watch.now += 30_000;
  t.equal(health.report(target).state, "half-open");
});

t.test("what is at rest may be tried at once: a target, or all of a provider with its credentials", async (t) => {
  const { health, ask, fail } = watched(0);
  const provider = providerOf({ name: "p", credentials: credentialsOf("one") });
  const [a, b] = ["a", "b"].map((model): Target => ({ provider, model, weight: 1 })) as [Target, Target];
  for (const target of [a, b]) fail(target);
  health.tryNow({ provider: "p", model: "a" });
  t.same([health.report(a).state, health.report(b).state], ["half-open", "open"]);
  health.tryNow({ provider: "p" });
  t.same(health.report(b).state, "half-open");
  ask(a, 200);
  ask(a, 401);
  t.notOk(health.isUsable(a));
  health.tryNow({ provider: "other" });
  t.notOk(health.isUsable(a));
  health.tryNow({ provider: "p" });
  t.ok(health.isUsable(a));
  t.match(health.report(a).credentials, [{ state: "refused", remaining: 0 }]);
});

t.test("nothing is sent where an operator has switched a target or a provider off", async (t) => {
  const { health } = watched();
  const [one, two] = [targetOf("one"), targetOf("two")];
  health.setSwitchedOff("one:m", true);
  t.same([health.candidates([one, two]), health.ordered([one, two])], [[two], [two]]);
  t.notOk(health.isUsable(one));
  t.equal(health.report(one).state, "off");
  health.setSwitchedOff("two", true);
  t.same([health.candidates([one, two]), health.ordered([one, two])], [[], []], "however few are left");
  const attempt = new Attempt({ target: two, ...start });
  const unknown = { conversation: undefined, objectCredential: undefined };
  t.throws(() => health.admit(attempt, unknown), { code: "no_target", retry: false });
  const next = new Health(0.5, new MemoryLog(), undefined, health);
  t.same(next.enabled([one, two]), [], "a reload keeps it");
  for (const name of ["one:m", "two"]) next.setSwitchedOff(name, false);
  t.same(health.ordered([one, two]), [one, two]);
  t.equal(health.report(one).state, "closed");
  health.admit(attempt, unknown);
  t.equal(attempt.credential, two.provider.credentials[0]);
});
