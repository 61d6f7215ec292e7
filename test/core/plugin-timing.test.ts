import t from "tap";
import { Chain } from "../../src/core/chain.ts";
import type { Head } from "../../src/core/head.ts";
import type { Plugin } from "../../src/core/plugin.ts";
import { Frame } from "../../src/wire/frame.ts";
import { startedExchange } from "../support/chain.ts";

t.test("of each phase one call in 17 is timed, to its end, and a failure to record is reported", async (t) => {
  const took: string[] = [];
  const failed: string[] = [];
  const observer = {
    onDuration: (plugin: string, hook: string, ms: number) => took.push(`${plugin}.${hook} ${ms >= 0}`),
    onDoneFailed: (plugin: string) => failed.push(plugin),
    onBlocked() {},
  };
  const plugin = {
    access: async () => {},
    route: () => {
      throw new Error("no");
    },
    done: () => Promise.reject(new Error("no")),
  };
  const chain = new Chain("test", [{ name: "odd", plugin }], undefined, observer);
  for (let i = 0; i < 17; i++) {
    await chain.access(startedExchange());
    const thrown = await (async () => chain.route(startedExchange()))().catch((error: unknown) => error);
    t.match(thrown, { origin: "odd.route" });
    await chain.done(startedExchange());
  }
  t.same(took.toSorted(), ["odd.access true", "odd.done true", "odd.route true"]);
  t.equal(failed.length, 17);
});

t.test("a call that blocks the event loop is reported, in every phase and also if it throws", async (t) => {
  const blocked = new Set<string>();
  const observer = {
    onDuration() {},
    onDoneFailed() {},
    onBlocked: (plugin: string, hook: string, ms: number) => ms > 50 && blocked.add(`${plugin}.${hook}`),
  };
  const spin = () => {
    for (const end = performance.now() + 51; performance.now() < end; );
  };
  const plugin: Plugin = {
    access: async () => spin(),
    route() {
      spin();
      throw new Error("no");
    },
    response: () => {
      spin();
      return ({ kind }) => (kind === "end" ? spin() : undefined);
    },
    done: spin,
  };
  const chain = new Chain("test", [{ name: "busy", plugin }], undefined, observer);
  Chain.timeAllCalls();
  await chain.access(startedExchange());
  t.throws(() => void chain.route(startedExchange()));
  const [stage] = await chain.response(startedExchange(), { status: 200 } as Head);
  stage?.(new Frame("piece", Buffer.from("x")));
  stage?.(new Frame("end", Buffer.alloc(0)));
  await chain.done(startedExchange());
  t.same([...blocked], ["busy.access", "busy.route", "busy.response", "busy.stage", "busy.done"]);
});
