import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t from "tap";
import { ROUTES } from "../../src/admin/api.ts";
import { asking, type Running } from "../support/gateway.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { startAdmin, YAML } from "./support.ts";

const call = ({ url }: Running, model: string, stream = false) =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking(),
    body: JSON.stringify({ model, stream, messages: [{ role: "user", content: "hi" }] }),
  });

/** What comes of an answer that breaks off. */
async function untilCut({ body }: Response): Promise<string> {
  let text = "";
  try {
    for await (const piece of body ?? []) text += Buffer.from(piece).toString();
  } catch {
    return text;
  }
  throw new Error("it was whole");
}

t.test("running requests are listed, and can be ended", async (t) => {
  const gateway = await startAdmin(t);
  const { ask } = gateway;
  const response = await call(gateway, "slow", true);
  const id = response.headers.get("x-request-id");
  const { requests } = (await ask("GET", "/api/live")).body;
  t.equal(requests.length, 1);
  t.match(requests[0], { id, key: "test", model: "slow", target: "demo:slow", kind: "stream", state: "streaming" });
  t.ok(requests[0].age >= 0);
  t.match((await ask("GET", `/api/requests/${id}`)).body, { live: { id } });
  t.match((await ask("GET", "/api/now")).body, { running: 1, streams: 1, sockets: 0, generation: 1 });
  t.equal((await ask("POST", `/api/live/${id}/cancel`)).status, 204);
  t.match(await untilCut(response), /An operator of the gateway cancelled this request/);
  t.equal((await ask("POST", `/api/live/${id}/cancel`)).status, 404);
  const { request } = (await ask("GET", `/api/requests/${id}`)).body;
  t.match(request, { id, outcome: "interrupted", key: "test", attempts: [{ target: "demo:slow" }] });
  t.match((await ask("GET", "/api/audit")).body.entries, [
    { action: "requests.cancel", subject: id, who: "local", address: /127\.0\.0\.1/ },
  ]);
});

t.test("the ledger is searched, page by page", async (t) => {
  const gateway = await startAdmin(t);
  const { ask } = gateway;
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    const response = await call(gateway, i === 3 ? "nothing" : "echo");
    ids.unshift(response.headers.get("x-request-id") ?? "");
    await response.text();
    await after(2);
  }
  const found = async (query: string) => (await ask("GET", `/api/requests?${query}`)).body;
  const idsOf = (answer: { requests: { id: string }[] }) => answer.requests.map(({ id }) => id);
  t.same(idsOf(await found("")), ids);
  const first = await found("limit=2");
  t.same(idsOf(first), ids.slice(0, 2));
  const second = await found(`limit=2&before=${first.next}`);
  t.same(idsOf(second), ids.slice(2, 4));
  const last = await found(`limit=2&before=${second.next}`);
  t.same(idsOf(last), ids.slice(4));
  t.equal(last.next, undefined);
  t.same(idsOf(await found("status=404")), [ids[1]]);
  t.same(idsOf(await found("status=4xx&outcome=rejected")), [ids[1]]);
  t.equal((await found("model=echo&key=test&target=demo:echo")).requests.length, 4);
  t.same(idsOf(await found("without=target")), [ids[1]], "no provider was called");
  t.same(idsOf(await found("without=target,key")), []);
  t.equal((await found("without=group&model=echo")).requests.length, 4);
  t.same(idsOf(await found("key=nobody")), []);
  const { key } = (await ask("POST", "/api/keys", { body: { name: "alice" } })).body;
  gateway.gateway.stores.ledger.append({ ...plainEntry(Date.now()), key: key.id });
  await gateway.gateway.stores.ledger.flush();
  for (const named of [key.id, "alice"])
    t.match((await found(`key=${named}`)).requests, [{ key: key.id }], "by its id or its name");
  t.same(idsOf(await found("slower=100000")), []);
  t.same(idsOf(await found("until=2000-01-01")), []);
  for (const query of [
    "modle=echo",
    "foo=1",
    "status=40",
    "limit=x",
    "since=soon",
    "slower=fast",
    "since=1h?x",
    "without=cost",
    "model=echo&without=model",
  ])
    t.equal((await ask("GET", `/api/requests?${query}`)).status, 400, query);
  t.equal((await ask("GET", "/api/requests/00000000-0000-7000-8000-000000000000")).status, 404);
  t.equal((await ask("GET", "/api/requests/none")).status, 404);
});

t.test("a query parameter that cannot be read is refused with what it takes, on every route", async (t) => {
  const { ask } = await startAdmin(t);
  const wrong: Record<string, readonly string[]> = {
    since: ["soon", "-1h", "2026-02-30", "now"],
    until: ["soon", "1.5"],
    limit: ["x", "-1", "1.5", "1e3"],
    before: ["junk", "_", "x_y", `${"9".repeat(16)}_`],
    status: ["40", "700", "9xx", "0xx", "4XX", "four"],
    outcome: ["complete", "COMPLETED"],
    slower: ["fast", "-1"],
    dearer: ["$1", "0.5"],
    without: ["cost", "key,cost"],
    by: ["cost", "keys"],
    days: ["utc", ""],
    back: ["0", "yes"],
  };
  // Any text is a filter by a name.
  const names = ["key", "group", "model", "target"];
  for (const { method, path, query } of ROUTES)
    for (const name of Object.keys(query).filter((each) => !names.includes(each)))
      for (const value of wrong[name] ?? [""]) {
        const asked = `${path}?${name}=${encodeURIComponent(value)}`;
        const { status, body } = await ask(method, asked);
        t.equal(status, 400, asked);
        t.match(body, { error: { code: "bad_request", message: / takes | is not a time\. Write / } }, asked);
      }
});

t.test("an unknown query parameter is refused with the name of a similar one", async (t) => {
  const { ask } = await startAdmin(t);
  const { status, body } = await ask("GET", "/api/requests?modle=echo");
  t.equal(status, 400);
  t.match(JSON.stringify(body), /no parameter .*modle.* here, did you mean model\? It takes since, until/);
  t.match(JSON.stringify((await ask("GET", "/api/keys?limit=1")).body), /It takes none/);
  t.equal((await ask("GET", "/api/requests?constructor=1")).status, 400);
});

t.test("the reason for which a request was refused is shown", async (t) => {
  const gateway = await startAdmin(t, `${YAML}limits: { models: { echo: { rpm: 1 } } }\n`);
  await (await call(gateway, "echo")).text();
  const refused = await call(gateway, "echo");
  const { error } = (await refused.json()) as { error: { message: string } };
  const { request } = (await gateway.ask("GET", `/api/requests/${refused.headers.get("x-request-id")}`)).body;
  t.match(request, { status: 429, error: { code: "rate_limit_exceeded", message: error.message } });
});

t.test("money, speed and failures match the ledger", async (t) => {
  const gateway = await startAdmin(t);
  const { ask, gateway: inside } = gateway;
  for (const model of ["echo", "echo", "nothing"]) await (await call(gateway, model)).text();
  await (await call(gateway, "echo", true)).text();
  const spend = (await ask("GET", "/api/spend?by=model,day")).body;
  const [sum] = await inside.stores.ledger.sums({ by: ["model"], since: spend.since, until: spend.until });
  t.equal(spend.rows[0].group[0], "echo");
  t.equal(spend.rows[0].requests, 3);
  t.equal(spend.rows[0].tokens_out, sum?.tokensOut);
  const speed = (await ask("GET", "/api/speed?by=target&since=1h")).body;
  t.match(speed.rows, [{ name: "demo:echo", requests: 3 }]);
  t.ok(speed.rows[0].duration.p50 > 0);
  t.match((await ask("GET", "/api/errors?since=1h")).body.rows, [
    { status: 404, outcome: "rejected", requests: 1, target: "" },
  ]);
  t.match((await ask("GET", "/api/now")).body, { last_hour: { requests: 4, failed: 1, ours: 0 }, spend: { today: 0 } });
  for (const by of ["mood", "day,day", "tag,day,model,day"])
    t.equal((await ask("GET", `/api/spend?by=${by}`)).status, 400, by);
  t.equal((await ask("GET", "/api/speed?by=mood")).status, 400);
});

t.test("a provider that fails before a fallback is listed among the attempts", async (t) => {
  const yaml = `providers:
  demo: { url: "demo:" }
  down: { url: "http://127.0.0.1:9/v1", protocol: openai-chat }
models:
  echo: { targets: [demo:echo] }
  limited: { targets: [demo:error-429], fallback: [echo] }
  wrong: { targets: [demo:error-400] }
  unpaid: { targets: [demo:error-402] }
  fragile: { targets: [down:x], fallback: [echo] }
retry: { attempts: 1 }
`;
  const gateway = await startAdmin(t, yaml);
  for (const model of ["limited", "fragile"]) t.equal((await call(gateway, model)).status, 200, model);
  await gateway.gateway.stores.ledger.flush();
  const { rows, attempts } = (await gateway.ask("GET", "/api/errors?since=1h")).body;
  t.same(rows, [], "no exchange failed completely");
  const of = (target: string) => attempts.find((each: { target: string }) => each.target === target);
  t.match(of("demo:error-429"), { status: 429, attempts: Number, answered: of("demo:error-429").attempts });
  t.match(of("down:x"), { error: "upstream_unreachable", answered: of("down:x").attempts });
  const { last_hour: hour } = (await gateway.ask("GET", "/api/now")).body;
  t.equal(hour.limited_there, of("demo:error-429").attempts);
  t.match(hour, { failed: 0, limited_here: 0 });
  for (const model of ["wrong", "unpaid"]) await (await call(gateway, model)).text();
  await gateway.gateway.stores.ledger.flush();
  t.match(
    (await gateway.ask("GET", "/api/now")).body.last_hour,
    { failed: 2, upstream: 1, refused_there: 1 },
    "a request error returned by a provider is not the provider's failure",
  );
});

t.test("budgets are shown with the amounts that the limits have counted", async (t) => {
  const gateway = await startAdmin(
    t,
    `${YAML}limits: { groups: { acme: { budget: $5/day } }, models: { echo: { rpm: 10 } } }\n`,
  );
  const { ask } = gateway;
  await ask("POST", "/api/keys", { body: { name: "ci", group: "acme/research" } });
  await (await call(gateway, "echo")).text();
  const { limits } = (await ask("GET", "/api/budgets")).body;
  t.match(
    limits.find(({ kind }: { kind: string }) => kind === "group"),
    { name: "acme", budgets: [{ limit: 5_000_000_000, per: "day", spent: 0 }] },
  );
  t.match(
    limits.find(({ kind }: { kind: string }) => kind === "model"),
    { name: "echo", requests: { limit: 10, remaining: 9 } },
  );
});

t.test("providers and models are shown with their health", async (t) => {
  const provider = `p: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, credential: literal-secret-of-p }`;
  const off = `q: { url: "http://127.0.0.1:9/v1", protocol: openai-chat, credential: $NOT_SET_ANYWHERE }`;
  const yaml = `providers: { ${provider}, ${off} }\nmodels: { m: { targets: [p:v], context: 8k, price: { input: 1, output: 2 } } }\nretry: { attempts: 0 }\n`;
  const gateway = await startAdmin(t, yaml);
  const { ask } = gateway;
  for (let i = 0; i < 6; i++) await (await call(gateway, "m")).text();
  const { providers } = (await ask("GET", "/api/providers")).body;
  t.match(providers, [
    {
      name: "p",
      url: "http://127.0.0.1:9/v1",
      credentials: [{ label: "#1", state: "ok" }],
      targets: [{ model: "v", serves: ["m"], state: "open", in_flight: 0 }],
    },
    { name: "q", off: /NOT_SET_ANYWHERE is not set/, targets: { length: 0 } },
  ]);
  t.ok(providers[0].targets[0].until > Date.now());
  const { attention } = (await ask("GET", "/api/now")).body;
  t.same(
    attention.map(({ kind, name }: { kind: string; name: string }) => [kind, name]),
    [
      ["target", "p:v"],
      ["provider", "q"],
    ],
  );
  t.match((await ask("GET", "/api/models")).body.models, [
    {
      id: "m",
      context: 8000,
      targets: [{ provider: "p", model: "v", price: { input: 1, output: 2 }, sources: { input: "gateway.yaml" } }],
    },
  ]);
});

t.test("a plugin's phases are listed wherever it has them: in its class, its base or a field", async (t) => {
  const plugin = `class Base { access() {} }
export default class extends Base { done = () => {}; response() {} }`;
  const yaml = `${YAML}plugins: { mine: { from: ./mine.mjs } }\n`;
  const { ask } = await startAdmin(t, yaml, {}, { "mine.mjs": plugin });
  const { plugins } = (await ask("GET", "/api/config")).body;
  t.same(plugins.find(({ name }: { name: string }) => name === "mine")?.phases, ["access", "response", "done"]);
});

t.test("the configuration is shown without its secrets, compared and reloaded", async (t) => {
  const yaml = `${YAML}keys: { test: { key: test-key-0123456789abcdef }, other: { key: literal-of-the-operator-77 } }\n`;
  const { ask, folder, gateway } = await startAdmin(t, yaml);
  const config = (await ask("GET", "/api/config")).body;
  t.match(config, { generation: 1, chains: { read: ["auth"] }, restart: { length: 0 }, settings: { drain: "10m" } });
  t.match(config.text, /echo: \{ targets/);
  t.notMatch(JSON.stringify(config), /literal-of-the-operator|test-key-0123/);
  t.ok(
    config.plugins.some(
      ({ name, phases }: { name: string; phases: string[] }) => name === "auth" && phases.includes("access"),
    ),
  );
  t.same((await ask("GET", "/api/config/diff")).body, { changes: [], restart: [], notices: [] });
  const file = join(folder, "gateway.yaml");
  writeFileSync(file, `${gateway.config.text}drain: 5s\n`);
  t.same((await ask("GET", "/api/config/diff")).body, {
    changes: [{ path: "drain", before: "10m", after: "5s" }],
    restart: [],
    notices: [],
  });
  t.equal(gateway.config.drain, 600_000, "no change yet");
  t.match((await ask("POST", "/api/reload")).body, { generation: 2, changes: [{ path: "drain" }] });
  t.equal(gateway.config.drain, 5000);
  writeFileSync(file, "models: {");
  const broken = await ask("POST", "/api/reload");
  t.match(broken, { status: 422, body: { error: { code: "refused", message: /gateway\.yaml:1/ } } });
  t.equal((await ask("GET", "/api/config/diff")).status, 422);
  t.match((await ask("GET", "/api/now")).body, {
    reload: { problem: /gateway\.yaml/ },
    attention: [{ kind: "reload" }],
  });
});

t.test("a search with few matching rows returns pages, and no row is missing or repeated", async (t) => {
  const gateway = await startAdmin(t, YAML.replace("models: {", "models: { rare: { targets: [demo:echo] },"));
  const { ask } = gateway;
  const { ledger } = gateway.gateway.stores;
  for (const model of ["rare", "echo", "echo", "echo", "rare", "echo", "echo"])
    await (await call(gateway, model)).text();
  await ledger.flush();
  // Parts of two rows, where a gateway has them of many.
  const reach = ledger.reach.bind(ledger);
  ledger.reach = (search) => reach(search, 2);
  const all = (await ask("GET", "/api/requests")).body;
  t.equal(all.requests.length, 7, "without filters there is one part");
  t.notOk(all.next);
  for (const [filter, count] of [
    ["model=rare", 2],
    ["slower=999999", 0],
    ["outcome=completed", 7],
    ["model=rare&limit=1", 2],
  ] as const) {
    const ids: string[] = [];
    let parts = 0;
    for (let next: string | undefined = ""; next !== undefined; parts++) {
      const { body } = await ask("GET", `/api/requests?${filter}${next && `&before=${next}`}`);
      ids.push(...body.requests.map(({ id }: { id: string }) => id));
      next = body.next;
    }
    t.ok(parts > 2, `${filter}: ${parts} parts`);
    t.equal(ids.length, count, filter);
    t.equal(new Set(ids).size, count, filter);
  }
  t.same((await ask("GET", "/api/requests?key=nobody")).body, { requests: [] }, "without the key no part is read");
});

t.test("running generations are listed with what keeps them running", async (t) => {
  const gateway = await startAdmin(t);
  const { ask, folder } = gateway;
  const response = await call(gateway, "slow", true);
  writeFileSync(
    join(folder, "gateway.yaml"),
    `${gateway.gateway.config.text}keep: 1\n`.replace("keep: 1\n", "linger: 1s\n"),
  );
  await gateway.gateway.reload();
  const { generations } = (await ask("GET", "/api/generations")).body;
  t.match(generations, [
    { number: 2, serving: true, exchanges: { length: 0 } },
    {
      number: 1,
      serving: false,
      exchanges: [{ id: response.headers.get("x-request-id"), key: "test", kind: "stream" }],
    },
  ]);
  t.ok(generations[1].ends > Date.now());
  await response.text();
  t.equal((await ask("GET", "/api/generations")).body.generations.length, 1);
});
