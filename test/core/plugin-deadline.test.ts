import t from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { Chain } from "../../src/core/chain.ts";
import { GatewayError } from "../../src/core/errors.ts";
import type { FailedAnswer, Head } from "../../src/core/head.ts";
import { Frame } from "../../src/wire/frame.ts";
import { chainOf, startedExchange } from "../support/chain.ts";

const head = { status: 200 } as Head;
const NEVER = new Promise<never>(() => {});

/** Runs `failed`, and throws what it has kept for the log. */
async function observing(chain: Chain): Promise<void> {
  const exchange = startedExchange();
  await chain.failed(exchange, {} as Attempt, {} as FailedAnswer);
  for (const error of exchange.failedErrors) throw error;
}

t.test("a refusal keeps its code and gets its origin once", async (t) => {
  const refusal = new GatewayError("invalid_api_key");
  const chain = chainOf({ auth: { access: () => Promise.reject(refusal) } });
  await t.rejects(Promise.resolve(chain.access(startedExchange())), { code: "invalid_api_key", origin: "auth.access" });
});

/** What is waited for though it is no promise, as a query of a database client is. It begins when it is asked for its end. */
const query = (settle: (ok: (value?: unknown) => void, no: (thrown: unknown) => void) => void) => {
  const asked = { times: 0 };
  const then = (ok: () => void, no: () => void): void => {
    asked.times++;
    setTimeout(settle, 1, ok, no);
  };
  return { asked, then };
};

t.test("any thenable is awaited like a promise, in every phase and once", async (t) => {
  const runs: Record<string, (chain: Chain) => unknown> = {
    access: (chain) => chain.access(startedExchange()),
    request: (chain) => chain.request(startedExchange()),
    route: (chain) => chain.route(startedExchange()),
    send: (chain) => chain.send(startedExchange(), {} as Attempt),
    failed: observing,
    response: (chain) => chain.response(startedExchange(), head),
    done: async (chain) => {
      const failure = await chain.done(startedExchange());
      if (failure) throw failure;
    },
  };
  const took: string[] = [];
  for (const observer of [
    undefined,
    { onDuration: (_: string, hook: string) => took.push(hook), onDoneFailed() {}, onBlocked() {} },
  ])
    for (const [phase, run] of Object.entries(runs)) {
      const denied = query((_, no) => no(new GatewayError("denied_later", { status: 403, message: "No." })));
      const behind: string[] = [];
      const links = (made: unknown) => [
        // The last of a list is the first that sees an answer.
        ...(phase === "response" ? [{ name: "b", plugin: { [phase]: () => void behind.push("b") } }] : []),
        { name: "mine", plugin: { [phase]: () => made } },
        ...(phase === "response" ? [] : [{ name: "b", plugin: { [phase]: () => void behind.push("b") } }]),
      ];
      const refused = Promise.resolve(run(new Chain("test", links(denied), undefined, observer)));
      await t.rejects(refused, { code: "denied_later", origin: `mine.${phase}` });
      t.equal(denied.asked.times, 1);
      if (phase !== "done" && phase !== "failed") t.same(behind, [], `no plugin after it runs in ${phase}`);
      const fine = query((ok) => ok());
      await run(new Chain("test", links(fine), undefined, observer));
      t.equal(behind.at(-1), "b");
      t.equal(fine.asked.times, 1);
    }
  t.same(new Set(took), new Set(Object.keys(runs)));
  const stage = () => [];
  const [first] = await chainOf({ mine: { response: () => query((ok) => ok(stage)) as never } }).response(
    startedExchange(),
    head,
  );
  t.same(first?.(new Frame("piece", Buffer.alloc(0))), [], "a stage may be added that way too");
});

t.test("a phase that does not settle ends with plugin_timeout, which names it", async (t) => {
  const hanging = (phase: string): Chain =>
    new Chain("test", [{ name: "slow", plugin: { [phase]: () => NEVER }, deadline: 5 }]);
  const runs = {
    access: (chain: Chain) => chain.access(startedExchange()),
    request: (chain: Chain) => chain.request(startedExchange()),
    route: (chain: Chain) => chain.route(startedExchange()),
    send: (chain: Chain) => chain.send(startedExchange(), {} as Attempt),
    failed: observing,
    response: (chain: Chain) => chain.response(startedExchange(), head),
  };
  for (const [phase, run] of Object.entries(runs)) {
    const origin = `slow.${phase}`;
    const message = `${origin} did not end within 0.005 s.`;
    await t.rejects(Promise.resolve(run(hanging(phase))), { code: "plugin_timeout", status: 504, origin, message });
  }
  t.match(await hanging("done").done(startedExchange()), { code: "plugin_timeout", origin: "slow.done" });
});

t.test("the time to read a complete response counts as the provider's", async (t) => {
  const reading = { status: 200, isReading: true } as Head;
  const { promise, resolve } = Promise.withResolvers<void>();
  const chain = new Chain("test", [{ name: "slow", plugin: { response: () => promise }, deadline: 5 }]);
  const stages = Promise.resolve(chain.response(startedExchange(), reading));
  const waited = await Promise.race([stages, new Promise((later) => setTimeout(later, 40, "waits"))]);
  t.equal(waited, "waits");
  reading.isReading = false;
  resolve();
  t.same(await stages, []);
});

t.test("a deadline of 0 is none, and a met deadline leaves no timer behind", async (t) => {
  const wait = (): Promise<void> => new Promise((later) => setTimeout(later, 20));
  await new Chain("test", [{ name: "slow", plugin: { access: wait }, deadline: 0 }]).access(startedExchange());
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
  const before = timers();
  await chainOf({ quick: { access: async () => {} } }).access(startedExchange());
  t.equal(timers(), before);
});
