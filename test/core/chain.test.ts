import { setImmediate as nextTurn } from "node:timers/promises";
import t from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { Body } from "../../src/core/body.ts";
import { Chain } from "../../src/core/chain.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import type { FailedAnswer, Head } from "../../src/core/head.ts";
import type { Limits } from "../../src/core/limit-kinds.ts";
import type { Plugin } from "../../src/core/plugin.ts";
import { Frame } from "../../src/wire/frame.ts";
import { chainOf, startedExchange } from "../support/chain.ts";
import { SPEAKS_TEXT } from "../support/speaks-text.ts";

const exchange = startedExchange();
const head = { status: 200 } as Head;

t.test("request phases run down the chain and response phases up", async (t) => {
  const seen: string[] = [];
  const noting = (name: string): Plugin => ({
    access: () => void seen.push(`${name} access`),
    response: () => {
      seen.push(`${name} response`);
      return () => void seen.push(`${name} stage`);
    },
  });
  const chain = chainOf({ first: noting("first"), second: noting("second") });
  await chain.access(exchange);
  for (const stage of await chain.response(exchange, head)) stage(new Frame("end", Buffer.alloc(0)));
  t.same(seen, ["first access", "second access", "second response", "first response", "second stage", "first stage"]);
});

t.test("a response that the client does not get is shown to plugins with a failed phase", (t) => {
  const attempt = {} as Attempt;
  const answer = {} as FailedAnswer;
  const seen: unknown[] = [];
  const chain = chainOf({ looks: { failed: (_, ...more) => void seen.push(...more) }, other: { send() {} } });
  t.equal(chain.hasFailedPhase, true);
  chain.failed(exchange, attempt, answer);
  t.equal(seen[0], attempt);
  t.equal(seen[1], answer);
  t.equal(chainOf({ other: { send() {} } }).hasFailedPhase, false);
  t.end();
});

t.test(
  "a plugin that fails in `failed` keeps no other from observing, and its error is kept for the log",
  async (t) => {
    const seen: string[] = [];
    const note = (name: string): Plugin => ({ failed: () => void seen.push(name) });
    const bad = () => {
      throw new Error("broken");
    };
    const chain = chainOf({ a: { failed: bad }, b: note("b"), c: { failed: async () => bad() }, d: note("d") });
    const exchange = startedExchange();
    await chain.failed(exchange, {} as Attempt, {} as FailedAnswer);
    t.same(seen, ["b", "d"]);
    t.match(exchange.failedErrors, [{ code: "plugin_failed", origin: "a.failed" }, { origin: "c.failed" }]);
    t.equal(exchange.failedErrors.length, 2);
  },
);

t.test("a phase in which no plugin waits returns no promise", async (t) => {
  t.equal(chainOf({ a: { route() {} }, b: {} }).route(exchange), undefined);
  const waited: string[] = [];
  const slow = chainOf({ a: { route: async () => void waited.push("a") }, b: { route: () => void waited.push("b") } });
  const later = slow.route(exchange);
  t.type(later, Promise);
  await later;
  t.same(waited, ["a", "b"]);
});

t.test("an error names the plugin and the phase, in every phase", async (t) => {
  const bad = () => {
    throw new Error("broken");
  };
  const phases = [
    ["access", (chain: Chain) => chain.access(exchange)],
    ["response", (chain: Chain) => chain.response(exchange, head)],
  ] as const;
  for (const [phase, run] of phases) {
    const attempt = async () => run(chainOf({ mine: { [phase]: bad } }));
    const error = await attempt().catch((thrown) => thrown);
    t.match(error, {
      name: "GatewayError",
      code: "plugin_failed",
      origin: `mine.${phase}`,
      cause: { message: "broken" },
    });
  }
  const [stage] = await chainOf({ mine: { response: () => bad } }).response(exchange, head);
  t.throws(() => stage?.(new Frame("end", Buffer.alloc(0))), { code: "plugin_failed", origin: "mine.response" });
  const later = await Promise.resolve(chainOf({ mine: { access: async () => bad() } }).access(exchange)).catch(
    (thrown) => thrown,
  );
  t.match(later, { code: "plugin_failed", origin: "mine.access" });
});

/** A request with a text that is searched in many turns of the event loop. */
function longRequest(): Exchange {
  const text = `${" .".repeat(40_000)}me@home`;
  const asked = new Exchange({ arrivedAt: 0, protocol: SPEAKS_TEXT } as ExchangeStart);
  asked.body = new Body([Buffer.from(JSON.stringify({ t: [{ k: "user", d: text }] }))], "json");
  return asked;
}
const ADDRESS = { pattern: /\w+@home/, maxLength: 20 };
/** As many turns of the event loop as the search takes, and some. */
const turns = async () => {
  for (let i = 0; i < 20; i++) await nextTurn();
};

t.test(
  "a phase that ends before its replacements of texts is a failure: the texts would be sent as they were",
  async (t) => {
    const forgetful: Plugin[] = [
      { request: (asked) => void asked.replaceText(ADDRESS, () => "<address>") },
      { request: async (asked) => void asked.replaceText(ADDRESS, () => "<address>") },
      { request: (asked) => void asked.replaceText({ ...ADDRESS, maxLength: 0 }, () => "<address>") },
    ];
    for (const plugin of forgetful) {
      const ends = async () => chainOf({ mine: plugin }).request(longRequest());
      await t.rejects(ends(), { code: "plugin_failed", origin: "mine.request", cause: { message: /await it/ } });
    }
  },
);

t.test("a replacement of texts that fails fails its phase only, whoever awaits it", async (t) => {
  const unhandled: unknown[] = [];
  const note = (thrown: unknown) => void unhandled.push(thrown);
  process.on("unhandledRejection", note);
  t.teardown(() => process.off("unhandledRejection", note));
  const breaks = (asked: Parameters<NonNullable<Plugin["request"]>>[0]) =>
    asked.replaceText(ADDRESS, () => {
      throw new Error("no masks left");
    });
  const phases: [what: string, request: NonNullable<Plugin["request"]>][] = [
    ["awaited", (asked) => breaks(asked)],
    ["caught", async (asked) => breaks(asked).catch(() => {})],
    [
      "not awaited, and failed before the end",
      async (asked) => {
        void breaks(asked);
        await turns();
      },
    ],
  ];
  for (const [what, request] of phases)
    await t.rejects(
      async () => chainOf({ mine: { request } }).request(longRequest()),
      { code: "plugin_failed", origin: "mine.request", cause: { message: "no masks left" } },
      what,
    );
  const stopped: Plugin = {
    request(asked) {
      void breaks(asked);
      throw new GatewayError("invalid_api_key");
    },
  };
  await t.rejects(async () => chainOf({ mine: stopped }).request(longRequest()), { code: "invalid_api_key" });
  const answering: Plugin = {
    request: (asked) =>
      breaks(asked).catch(() => {
        asked.answer = { status: 403, body: "" };
      }),
  };
  await chainOf({ mine: answering }).request(longRequest());
  await turns();
  t.same(unhandled, []);
});

t.test(
  "what a caller may not do is refused before another plugin, or the path's own one, sees the request",
  async (t) => {
    for (const [refused, code] of [
      [{ expires: 1 }, "revoked_api_key"],
      [{ paths: ["/v1/files/*"] }, "key_not_allowed"],
      [{ addresses: ["10.9.0.0/16"] }, "key_not_allowed"],
    ] as const)
      for (const later of [false, true]) {
        const seen: string[] = [];
        const own: Plugin = {
          access(exchange) {
            const admit = () => {
              exchange.caller = { id: "k", name: "bob", ...refused };
            };
            return later ? Promise.resolve().then(admit) : admit();
          },
        };
        const next: Plugin = { access: () => void seen.push("next"), serve: () => ({ status: 200, body: "" }) };
        const chain = new Chain(
          "test",
          [
            { name: "own", plugin: own },
            { name: "next", plugin: next },
          ],
          { name: "s", plugin: next },
        );
        await t.rejects(async () => chain.access(startedExchange()), { code, message: /"bob"/ }, `${code}, ${later}`);
        t.same(seen, []);
      }
    const access: Plugin["access"] = (exchange) => {
      exchange.caller = "bob" as never;
    };
    await t.rejects(async () => chainOf({ own: { access } }).access(startedExchange()), {
      code: "plugin_failed",
      origin: "own.access",
    });
  },
);

t.test("done runs for every plugin, even if another one throws", async (t) => {
  const seen: string[] = [];
  const chain = chainOf({
    a: { done: () => Promise.reject(new Error("no")) },
    b: { done: () => void seen.push("b") },
  });
  t.match(await chain.done(exchange), { origin: "a.done" });
  t.same(seen, ["b"]);
});

t.test("a plugin that answers ends the request phases, and only the plugins before it see the response", async (t) => {
  for (const answer of [() => ({ body: "{}" }), async () => ({ body: "{}" })]) {
    const seen: string[] = [];
    const noting = (name: string): Plugin => ({
      request: () => void seen.push(`${name} request`),
      response: () => void seen.push(`${name} response`),
      done: () => void seen.push(`${name} done`),
    });
    const cache: Plugin = {
      ...noting("cache"),
      request: (exchange) => {
        const made = answer();
        if (!(made instanceof Promise)) return void Object.assign(exchange, { answer: made });
        return made.then((given) => void Object.assign(exchange, { answer: given }));
      },
    };
    const chain = chainOf({ first: noting("first"), second: noting("second"), cache, last: noting("last") });
    const exchange = startedExchange();
    await chain.request(exchange);
    t.match(exchange.answerer, { name: "cache", index: 2 });
    await chain.response(exchange, head);
    await chain.done(exchange);
    const ends = ["first done", "second done", "cache done", "last done"];
    t.same(seen, ["first request", "second request", "second response", "first response", ...ends]);
  }
});

t.test("null is no answer: a store may give it for what it does not have", async (t) => {
  const exchange = startedExchange();
  const seen: string[] = [];
  const chain = chainOf({
    cache: { request: (exchange) => void Object.assign(exchange, { answer: null }) },
    next: { request: () => void seen.push("next") },
  });
  await chain.request(exchange);
  t.same([seen, exchange.answer, exchange.answerer], [["next"], undefined, undefined]);
});

t.test("a caller with limits is refused by a chain without the plugins that enforce them", async (t) => {
  const day = { nano: 1, per: "day" } as const;
  const run = async (limits: Limits | undefined, names: readonly string[], serving?: Plugin) => {
    const auth: Plugin = {
      access: (exchange) => {
        exchange.caller = { id: "k", name: "ci", ...(limits && { limits }) };
      },
    };
    const links = names.map((name) => ({ name, plugin: name === "auth" ? auth : {} }));
    const exchange = new Exchange({ arrivedAt: 0, time: 0, path: "/v1/messages" } as ExchangeStart);
    await new Chain("test", links, serving && { name: "models", plugin: serving }).access(exchange);
  };
  const budgets = [{ ...day, soft: false }];
  for (const limits of [{ rpm: 1 }, { tpm: 1 }, { concurrency: 1 }, { budgets }]) {
    await t.rejects(run(limits, ["auth", "usage"]), {
      ...{ code: "key_not_allowed", status: 403, origin: "auth.access" },
      message:
        'The key "ci" has limits, and nothing enforces them on /v1/messages. Use another key, or ask the operator to add "limits" to the chain of this path.',
    });
    await t.rejects(run(limits, ["auth", "limits"]), { message: /add "usage" to/ });
    await t.rejects(run(limits, ["auth"]), { message: /add "limits" and "usage" to/ });
    await t.resolves(run(limits, ["auth", "limits", "usage"]));
    await t.resolves(run(limits, ["auth"], { serve: () => ({ body: "list" }) }), "what costs nothing");
  }
  for (const limits of [undefined, {}, { rpm: 0, budgets: [] }, { budgets: [{ ...day, soft: true }] }])
    await t.resolves(run(limits, ["auth"]), "what refuses nothing anywhere");
});

t.test("a path served by a plugin is answered after all other plugins have admitted the request", async (t) => {
  const seen: string[] = [];
  const gate: Plugin = { access: () => void seen.push("gate") };
  const serving: Plugin = {
    serve: () => {
      seen.push("served");
      return { body: "list" };
    },
  };
  const chain = new Chain("read", [{ name: "gate", plugin: gate }], { name: "models", plugin: serving });
  const exchange = startedExchange();
  await chain.access(exchange);
  t.same(seen, ["gate", "served"]);
  t.match(exchange, { answer: { body: "list" }, answerer: { name: "models" } });
  const broken = new Chain("read", [], { name: "models", plugin: { serve: () => Promise.reject(new Error("no")) } });
  await t.rejects(Promise.resolve(broken.access(startedExchange())), { code: "plugin_failed", origin: "models.serve" });
});

t.test("slow recording delays no other plugin, and does not count as anybody's time", async (t) => {
  const times: number[] = [];
  const note: Plugin = { done: ({ elapsed }) => void times.push(elapsed) };
  const { promise, resolve } = Promise.withResolvers<void>();
  const slow: Plugin = {
    done: async ({ elapsed }) => {
      times.push(elapsed);
      await promise;
    },
  };
  const one = startedExchange();
  const over = chainOf({ note, slow, last: note }).done(one);
  t.equal(times.length, 3, "all have been called at once");
  await new Promise((later) => setTimeout(later, 5));
  resolve();
  t.equal(await over, undefined);
  t.same(new Set([...times, one.elapsed]).size, 1);
});

t.test("a plugin that reads the complete response sees the changes of the plugins below it", async (t) => {
  const replace: Plugin = {
    response: () => (frame) => (frame.kind === "end" ? frame : new Frame("piece", Buffer.from("masked"))),
  };
  let read = "";
  const judge: Plugin = {
    response: async (_exchange, head) => {
      read = String(await head.readBody?.(100));
    },
  };
  const plain = { status: 200, readBody: async () => Buffer.from("me@home") } as unknown as Head;
  await chainOf({ judge, replace }).response(startedExchange(), plain);
  t.equal(read, "masked");
});

t.test("after a blocked event loop, all calls are timed for a while", async (t) => {
  let timed = 0;
  const observer = { onDuration: () => void timed++, onDoneFailed() {}, onBlocked() {} };
  const chain = new Chain("test", [{ name: "quick", plugin: { access() {} } }], undefined, observer);
  const calls = (count: number) => {
    timed = 0;
    for (let i = 0; i < count; i++) chain.access(startedExchange());
    return timed;
  };
  Chain.timeAllCalls();
  t.equal(calls(200), 200);
  t.equal(calls(170), 10);
});
