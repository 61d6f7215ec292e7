import t, { type Test } from "tap";
import { Alerts, postTestAlert } from "../../src/alerts/alerts.ts";
import { Webhook } from "../../src/alerts/webhook.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { AlertClaims } from "../../src/store/alert-claims.ts";
import { MemoryLog } from "../support/gateway.ts";
import { type AlertReceiver, startReceiver } from "../support/webhook.ts";

interface Made {
  receiver: AlertReceiver;
  alerts: Alerts;
  log: MemoryLog;
  clock: { now: number };
}

type Claims = Pick<AlertClaims, "claim" | "release">;

/** Claims of several gateways, as PostgreSQL keeps them. */
function sharedClaims(clock: { now: number }): Claims & { timeouts: number[] } {
  const known = new Map<string, { state: string; at: number }>();
  const timeouts: number[] = [];
  return {
    timeouts,
    async claim(subject, state, timeout) {
      timeouts.push(timeout);
      const last = known.get(subject);
      if (last?.state === state && last.at >= clock.now - timeout) return false;
      known.set(subject, { state, at: clock.now });
      return true;
    },
    async release(subject, state) {
      if (known.get(subject)?.state === state) known.set(subject, { state, at: Number.NEGATIVE_INFINITY });
    },
  };
}

async function make(
  t: Test,
  claims: Claims = new AlertClaims(),
  shared?: AlertReceiver,
  repeat = 1000,
  clock = { now: 0 },
): Promise<Made> {
  const receiver = shared ?? (await startReceiver(t));
  const webhook = new Webhook({}, [1]);
  t.teardown(() => webhook.close());
  const log = new MemoryLog();
  const alerts = new Alerts({
    ...{ webhook, log, claims, clock: () => clock.now },
    settings: () => ({ webhook: new URL(receiver.url), repeat }),
    redactor: () => new Redactor(["canary-of-a-credential"]),
  });
  return { receiver, alerts, log, clock };
}

t.test("each state of a subject is sent once, repeated after a while, and sent once when it ends", async (t) => {
  const { receiver, alerts, clock } = await make(t);
  const raise = (state: string) => alerts.raise({ subject: "budget key ci", state, text: `it is ${state}` });
  alerts.resolve("budget key ci", "nothing was the matter");
  raise("80 %");
  raise("80 %");
  raise("100 %");
  clock.now = 999;
  raise("100 %");
  clock.now = 1000;
  raise("100 %");
  alerts.resolve("budget key ci", "it is well");
  alerts.resolve("budget key ci", "it is well");
  await alerts.flush();
  t.same(
    receiver.received.map(({ text, state }) => [state, /it is (.*) \(/.exec(text)?.[1]]),
    [
      ["firing", "80 %"],
      ["firing", "100 %"],
      ["firing", "100 %"],
      ["resolved", "well"],
    ],
  );
  t.equal(alerts.posted, 4);
});

t.test("no secret is sent, and an alert that cannot be posted is logged without the address", async (t) => {
  const { receiver, alerts, log } = await make(t);
  receiver.answers.push({ status: 403, body: "invalid canary-of-a-credential" });
  alerts.raise({ subject: "a", state: "bad", text: "the key canary-of-a-credential" });
  alerts.raise({ subject: "b", state: "bad", text: "the key canary-of-a-credential" });
  await alerts.flush();
  t.equal(receiver.received.length, 1);
  t.match(receiver.received[0]?.text, /the key \*\*\*/);
  t.match(log.lines, [{ level: "error", message: "an alert could not be posted", fields: { subject: "a" } }]);
  t.notMatch(JSON.stringify(log.lines), /canary/);
  t.same([alerts.posted, alerts.failed], [1, 1]);
});

t.test("one of several gateways sends an alert; where none can decide which, each does", async (t) => {
  const claims = sharedClaims({ now: 0 });
  const one = await make(t, claims);
  const other = await make(t, claims, one.receiver);
  for (const { alerts } of [one, other]) alerts.raise({ subject: "limits", state: "apart", text: "alone" });
  await Promise.all([one.alerts.flush(), other.alerts.flush()]);
  t.equal(one.receiver.received.length, 1);
  const fail = () => Promise.reject(new Error("away"));
  const away = await make(t, { claim: fail, release: fail }, one.receiver);
  away.alerts.raise({ subject: "ledger", state: "waiting", text: "away" });
  await away.alerts.flush();
  t.equal(one.receiver.received.length, 2);
});

const [MINUTE, HOUR] = [60_000, 3_600_000];

t.test("an alert that could not be posted is posted soon if it lasts", async (t) => {
  for (const isReleased of [true, false]) {
    const clock = { now: 0 };
    const claims = sharedClaims(clock);
    if (!isReleased) claims.release = () => Promise.reject(new Error("away"));
    const { receiver, alerts } = await make(t, claims, undefined, 4 * HOUR, clock);
    const raise = async () => {
      alerts.raise({ subject: "ledger", state: "waiting", text: "it cannot be written" });
      await alerts.flush();
      return receiver.received.length;
    };
    receiver.answers.push({ status: 403 });
    t.same([await raise(), alerts.failed], [0, 1]);
    clock.now = 4 * MINUTE;
    t.equal(await raise(), 0);
    clock.now = 5 * MINUTE;
    t.equal(await raise(), 1);
    clock.now = 11 * MINUTE;
    t.equal(await raise(), 1, "it was posted: it is repeated as others are");
    clock.now = 5 * HOUR;
    t.equal(await raise(), 2);
    t.same(claims.timeouts, [2 * HOUR, isReleased ? 2 * HOUR : 0, 2 * HOUR]);
  }
});

t.test("many alerts that another gateway has posted leave room for those of this one", async (t) => {
  const clock = { now: 0 };
  const claims = sharedClaims(clock);
  const one = await make(t, claims, undefined, 4 * HOUR, clock);
  const other = await make(t, claims, one.receiver, 4 * HOUR, clock);
  const raise = async ({ alerts }: Made, from: number, to: number) => {
    for (let i = from; i < to; i++) alerts.raise({ subject: `budget key ${i}`, state: "100 %", text: "it is spent" });
    await alerts.flush();
  };
  for (const from of [0, 80]) for (const each of [one, other]) await raise(each, from, from + 80);
  t.equal(one.receiver.received.length, 160);
  clock.now = 6 * MINUTE;
  await raise(other, 0, 161);
  t.equal(one.receiver.received.length, 161, "one is new");
  t.equal(other.alerts.failed, 0);
});

t.test("an alert that one gateway cannot post is posted by another one, once in each interval", async (t) => {
  const clock = { now: 0 };
  const claims = sharedClaims(clock);
  const cutOff = await make(t, claims, undefined, 4 * HOUR, clock);
  cutOff.receiver.answers.push(...Array.from({ length: 500 }, () => ({ status: 403 })));
  const one = await make(t, claims, undefined, 4 * HOUR, clock);
  const other = await make(t, claims, one.receiver, 4 * HOUR, clock);
  const posted: number[] = [];
  for (; clock.now < 10 * HOUR; clock.now += MINUTE)
    for (const { alerts } of [cutOff, one, other]) {
      alerts.raise({ subject: "ledger", state: "waiting", text: "it cannot be written" });
      await alerts.flush();
      if (one.receiver.received.length > posted.length) posted.push(clock.now / MINUTE);
    }
  t.match(posted, [/^\d$/, /^24\d$/, /^4[89]\d$/]);
  t.equal(posted.length, 3, posted.join());
});

t.test(
  "the end of an alert that could not be posted is claimed as others are: another gateway may tell it",
  async (t) => {
    const claimed: [state: string, timeout: number][] = [];
    const claims = {
      claim: async (_subject: string, state: string, timeout: number) => claimed.push([state, timeout]) > 0,
      release: () => Promise.reject(new Error("away")),
    };
    const { receiver, alerts } = await make(t, claims);
    receiver.answers.push({ status: 403 });
    alerts.raise({ subject: "ledger", state: "waiting", text: "it cannot be written" });
    await alerts.flush();
    alerts.resolve("ledger", "it is written again");
    await alerts.flush();
    t.same(claimed, [
      ["waiting", 500],
      ["resolved", 500],
    ]);
  },
);

t.test("an end that could not be posted is posted soon, once, by this gateway or by another one", async (t) => {
  for (const isCutOff of [false, true]) {
    const clock = { now: 0 };
    const claims = sharedClaims(clock);
    const one = await make(t, claims, undefined, 4 * HOUR, clock);
    const other = await make(t, claims, undefined, 4 * HOUR, clock);
    const both = [one, other];
    const told = async (state: string, order = both) => {
      for (const { alerts } of order)
        if (state === "well") alerts.resolve("ledger", "it is written again");
        else alerts.raise({ subject: "ledger", state, text: "it cannot be written" });
      await Promise.all(order.map(({ alerts }) => alerts.flush()));
      return both.map(({ receiver }) => receiver.received.map(({ state }) => state));
    };
    await told("waiting");
    one.receiver.answers.push(...Array.from({ length: isCutOff ? 500 : 1 }, () => ({ status: 403 })));
    t.same(await told("well"), [["firing"], []], "one has claimed it, and cannot post it");
    clock.now = 4 * MINUTE;
    t.same(await told("well"), [["firing"], []]);
    // One that cannot post tries for a while, and asks after the other.
    for (; clock.now < 10 * HOUR; clock.now += MINUTE) await told("well", isCutOff ? [other, one] : both);
    t.same(await told("well"), isCutOff ? [["firing"], ["resolved"]] : [["firing", "resolved"], []]);
    t.same(
      both.flatMap(({ alerts }) => [...alerts.subjects]),
      [],
      "nothing is left to tell",
    );
  }
});

t.test("an end that another gateway has told is not told again, however short the interval is", async (t) => {
  const clock = { now: 0 };
  const claims = sharedClaims(clock);
  const one = await make(t, claims, undefined, MINUTE, clock);
  const other = await make(t, claims, one.receiver, MINUTE, clock);
  const each = async (act: (alerts: Made["alerts"]) => void) => {
    for (const { alerts } of [one, other]) {
      clock.now += 1000;
      act(alerts);
      await alerts.flush();
    }
  };
  await each((alerts) => alerts.raise({ subject: "ledger", state: "waiting", text: "it cannot be written" }));
  while (clock.now < 20 * MINUTE) await each((alerts) => alerts.resolve("ledger", "it is written again"));
  t.same(
    one.receiver.received.map(({ state }) => state),
    ["firing", "resolved"],
  );
  t.same([...one.alerts.subjects, ...other.alerts.subjects], []);
});

t.test("an end that is not told does not keep the alert from being raised again", async (t) => {
  const { alerts, receiver, clock } = await make(t);
  const raise = () => alerts.raise({ subject: "ledger", state: "waiting", text: "it cannot be written" });
  raise();
  await alerts.flush();
  receiver.answers.push({ status: 403 });
  alerts.resolve("ledger", "it is written again");
  await alerts.flush();
  raise();
  clock.now = 999;
  await alerts.flush();
  t.same([...alerts.subjects], ["ledger"]);
  alerts.resolve("ledger", "it is written again");
  await alerts.flush();
  t.same(
    receiver.received.map(({ state }) => state),
    ["firing", "firing", "resolved"],
  );
  t.same([...alerts.subjects], []);
});

t.test("a flood of alerts is truncated, and nothing is posted after the stop", async (t) => {
  const { receiver, alerts, log } = await make(t);
  for (let i = 0; i < 150; i++) alerts.raise({ subject: `s${i}`, state: "bad", text: "x" });
  await alerts.flush();
  t.ok(receiver.received.length >= 100 && receiver.received.length <= 102, String(receiver.received.length));
  t.match(log.lines[0]?.fields, { cause: /more than 100/ });
  alerts.close();
  alerts.raise({ subject: "late", state: "bad", text: "x" });
  await alerts.flush();
  t.notOk(receiver.received.some(({ subject }) => subject === "late"));
});

t.test("alerts of very many budgets, which have no end, leave those whose end is to be posted", async (t) => {
  const { receiver, alerts } = await make(t);
  alerts.raise({ subject: "target up:fine", state: "bad", text: "it fails" });
  await alerts.flush();
  for (let i = 0; i < 2500; i++)
    alerts.raise({ subject: `budget key k${i}`, state: "080 %", text: "nearly spent", ordered: true });
  t.equal([...alerts.subjects].length, 2000);
  await alerts.flush();
  alerts.resolve("target up:fine", "it is well");
  await alerts.flush();
  t.match(receiver.received.at(-1), { subject: "target up:fine", state: "resolved" });
});

t.test("a test alert is marked as a test", async (t) => {
  const receiver = await startReceiver(t);
  const webhook = new Webhook({});
  t.teardown(() => webhook.close());
  await postTestAlert(webhook, new URL(receiver.url));
  t.match(receiver.received, [{ state: "test", subject: "test", text: /A test/ }]);
});
