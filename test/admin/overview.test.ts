import { mock } from "node:test";
import t from "tap";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import { attentionItems, overview } from "../../src/admin/overview.ts";
import { asking } from "../support/key.ts";
import { startAdmin } from "./support.ts";

t.test(
  "a budget that is nearly spent, a ledger that lags and a failed reload are listed as needing attention",
  async (t) => {
    const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 }, output: 100, context: 1k } }
limits: { groups: { acme: { budget: { amount: $0.001, soft: true } } } }
keys: { test: { key: test-key-0123456789abcdef, group: acme } }
`;
    const { gateway, url } = await startAdmin(t, yaml);
    t.same(await attentionItems(gateway), []);
    const body = '{"model":"echo","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    await response.text();
    t.match(await attentionItems(gateway), [
      { kind: "budget", name: "group acme", message: /% of its budget \(total, soft\)/, warning: true },
    ]);
    const waiting = {
      config: gateway.config,
      stores: gateway.stores,
      reloads: { last: { time: 1, problem: "gateway.yaml:1:1 it is broken" } },
      readiness: () => ({ ready: true, parts: { store: "waiting" } }),
      workerCounts: { wanted: 4, up: 3, deaths: 7 },
      askAll: gateway.askAll.bind(gateway),
    } as unknown as AdminGateway;
    const found = await attentionItems(waiting);
    t.same(
      found.map(({ kind }) => kind),
      ["reload", "ledger", "workers", "budget"],
    );
    const unwritten = { lines: 3, where: "/x cannot be written (full)" };
    t.match((await attentionItems(Object.assign(Object.create(waiting), { unwritten }) as AdminGateway))[1], {
      message:
        "3 lines of the journal are in memory only, as /x cannot be written (full): free room before it is stopped.",
    });
    t.match(found[2], {
      name: "missing",
      message: "3 of 4 serve; 7 have died since the start: see the log for the reasons.",
    });
    const workerless = { ...waiting, readiness: () => ({ ready: false, parts: { store: "unknown" } }) } as AdminGateway;
    t.notOk(
      (await attentionItems(workerless)).some(({ kind }) => kind === "ledger"),
      "an unknown state is not reported",
    );
  },
);

t.test(
  "a budget of a key created at run time is listed by the key's name, also if gateway.yaml has no keys",
  async (t) => {
    const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 }, output: 100, context: 1k } }
`;
    const { gateway, url, ask } = await startAdmin(t, yaml);
    const made = await ask("POST", "/api/keys", { body: { name: "alice", budget: "$0.001 soft" } });
    const body = '{"model":"echo","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
    const headers = asking({ authorization: `Bearer ${made.body.secret}` });
    await (await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body })).text();
    t.match(await attentionItems(gateway), [{ kind: "budget", name: "key alice" }]);
  },
);

t.test("values that is switched off is told with how long that lasts, and where", async (t) => {
  const { gateway } = await startAdmin(
    t,
    `providers: { demo: { url: "demo:" }, other: { url: "demo:" } }
models: { echo: { targets: [demo:echo, other:echo] } }
`,
  );
  gateway.switch("demo", true);
  gateway.switch("other:echo", true);
  const message = /until it is switched on or this gateway starts anew\. Other gateways .* still send/;
  const found = await attentionItems(gateway);
  t.match(found[0], { kind: "provider", name: "demo", message });
  t.match(found.at(-1), { kind: "target", name: "other:echo", message });
});

t.test("what the ledger cannot provide now are left out with a notice, and all others are shown", async (t) => {
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1000, output: 1000 }, output: 100, context: 1k } }
limits: { groups: { acme: { budget: { amount: $0.001, soft: true } } } }
keys: { test: { key: test-key-0123456789abcdef, group: acme } }
`;
  const { gateway } = await startAdmin(t, yaml);
  t.match(await overview(gateway), { spend: { today: 0 }, last_hour: { requests: 0 }, attention: { length: 0 } });
  const down = () => Promise.reject(new Error("the store is down"));
  const without = {
    config: gateway.config,
    stores: { ledger: { sums: down, failures: down, speeds: down }, keys: { list: down } },
    reloads: gateway.reloads,
    readiness: gateway.readiness.bind(gateway),
    askAll: gateway.askAll.bind(gateway),
  } as unknown as AdminGateway;
  const told = (await overview(without)) as { [name: string]: unknown; attention: { kind: string; message: string }[] };
  t.match(told, { running: 0, generation: 1 });
  for (const name of ["spend", "last_hour", "first_byte", "requests_per_second"]) t.notOk(name in told, name);
  t.match(told.attention, [
    { kind: "ledger", message: /does not respond/ },
    { kind: "ledger", name: "store", message: /^The state of the budgets is unknown/ },
  ]);
});

t.test("what was spent yesterday by this time has nothing of today, also where today has 25 hours", async (t) => {
  const { gateway } = await startAdmin(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
timezone: Europe/Berlin
`,
  );
  const spans: { since?: number; until?: number }[] = [];
  const { ledger } = gateway.stores;
  const sums = ledger.sums.bind(ledger);
  ledger.sums = (asked) => {
    spans.push(asked);
    return sums(asked);
  };
  // The 25th of October had 25 hours there, and began at 22:00 UTC.
  mock.timers.enable({ apis: ["Date"], now: Date.UTC(2026, 9, 25, 22, 30) });
  t.teardown(() => mock.timers.reset());
  await overview(gateway);
  const today = Date.UTC(2026, 9, 24, 22);
  t.same(
    spans.filter(({ until = 0 }) => until <= today),
    Array.from({ length: 2 }, () => ({ since: Date.UTC(2026, 9, 23, 22), until: today, by: [] })),
  );
});
