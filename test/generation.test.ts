import t from "tap";
import { formatError } from "../src/text/format-error.ts";
import { asking, KEY, startGateway } from "./support/gateway.ts";
import { until } from "./support/until.ts";

const YAML = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
`;
const chained = (plugins: string, names: string) =>
  `${YAML}plugins: { ${plugins} }\nchains: { llm: [${names}], read: [auth] }\n`;
const BODY = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}';
const ask = (url: string) => fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: BODY });

const STAMP = `
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { type Head, Marketplace, Options, type Plugin, type ResponseExchange } from "model-gateway";

@injectable()
export default class Stamp implements Plugin {
  static options = z.strictObject({ text: z.string() });
  static after = ["auth"];
  constructor(private readonly market: Marketplace, @inject(Options) private readonly options: { text: string }) {}
  response(_exchange: ResponseExchange, head: Head) {
    head.headers.set("x-stamp", this.options.text + this.market.models.length);
  }
}
`;

t.test("a plugin outside the checkout is constructed with its options and the gateway's own services", async (t) => {
  const { url } = await startGateway(
    t,
    chained("stamp: { from: ./stamp.ts, text: v }", "sse, auth, stamp, models, rewrite, usage"),
    { "stamp.ts": STAMP },
  );
  const response = await ask(url);
  t.equal(response.headers.get("x-stamp"), "v1");
  t.equal(response.status, 200);
});

t.test("the in-process demo provider is not reached through a proxy; a wrong proxy is reported at start", async (t) => {
  t.teardown(() => delete process.env["http_proxy"]);
  process.env["http_proxy"] = "http://127.0.0.1:1";
  const { url } = await startGateway(t, YAML);
  t.equal((await ask(url)).status, 200);
  process.env["http_proxy"] = "socks5://secret.test:1";
  const thrown: Error = await startGateway(t, YAML).then(
    () => t.fail("it started"),
    (error) => error,
  );
  t.equal(formatError(thrown), thrown.message, "without a stack");
  t.match(thrown.message, /^HTTP_PROXY is not the address of a proxy/);
});

t.test("an invalid configuration is refused at start, with file, field and reason", async (t) => {
  const wrong: [string, string, string, RegExp][] = [
    ["a syntax error", "export default class {", "p", /p\.ts/],
    ["no class", "export default 5;", "p", /p\.ts.*default export must be a class/s],
    [
      "no phase",
      "export default class P { acces() {} }",
      "p",
      /p\.ts.*fills no phase: acces is no phase, did you mean access\?/s,
    ],
    [
      "options that are no schema",
      "export default class P { static options = {}; access() {} }",
      "p",
      /p\.ts.*static options must be a zod schema/s,
    ],
    [
      "answers that are no schemas",
      "export default class P { static answers = { all: {} }; serve() { return { body: '' }; } }",
      "p",
      /p\.ts.*static answers must be { all, one }, each a zod schema/s,
    ],
    [
      "an order that is not kept",
      'export default class P { static after = ["rewrite"]; access() {} }',
      "p",
      /gateway\.yaml:8:28 .*"p" must be after "rewrite"/,
    ],
    [
      "an order that is not kept the other way round",
      'export default class P { static before = ["auth"]; access() {} }',
      "p",
      /gateway\.yaml:8:28 .*"p" must be before "auth"/,
    ],
    [
      "an order that is no list",
      'export default class P { static before = "auth"; access() {} }',
      "p",
      /p\.ts.*static before must be a list of plugin names/s,
    ],
    [
      "a part that does not exist",
      'import { injectable } from "tsyringe";\nclass Nothing { constructor(readonly x: string) {} }\n@injectable() export default class P { constructor(readonly nothing: Nothing) {} access() {} }',
      "p",
      /p\.ts.*cannot be built.*nothing/s,
    ],
    [
      "a start that fails",
      'export default class P { access() {} start() { throw new Error("no disk"); } }',
      "p",
      /no disk/,
    ],
  ];
  for (const [name, text, plugin, reason] of wrong) {
    const started = startGateway(
      t,
      chained(`${plugin}: { from: ./p.ts }`, `sse, auth, ${plugin}, models, rewrite, usage`),
      { "p.ts": text },
    );
    await t.rejects(started, { message: reason }, name);
  }
});

t.test("two plugins that register the same token do not start", async (t) => {
  const registering = (value: number) =>
    `import { container } from "tsyringe";\ncontainer.register("limit", { useValue: ${value} });\nexport default class P { access() {} }`;
  const files = { "a.ts": registering(1), "b.ts": registering(2) };
  const yaml = chained("a: { from: ./a.ts }, b: { from: ./b.ts }", "sse, auth, a, b, models, rewrite, usage");
  await t.rejects(startGateway(t, yaml, files), { message: /b\.ts: it registers the token "limit".*a\.ts does/ });
  const running = await startGateway(t, chained("a: { from: ./a.ts }", "sse, auth, a, models, rewrite, usage"), files);
  t.equal((await ask(running.url)).status, 200, "one of them does");
});

t.test("plugins start in order and close in reverse, even when one of them throws", async (t) => {
  const noting = (name: string, extra = "") =>
    `export default class P { access() {} start() { (globalThis as any).order.push("start ${name}"); } close() { (globalThis as any).order.push("close ${name}"); ${extra} } }`;
  const order: string[] = [];
  (globalThis as { order?: string[] }).order = order;
  t.teardown(() => delete (globalThis as { order?: string[] }).order);
  const files = { "a.ts": noting("a"), "b.ts": noting("b", "throw new Error();") };
  await t.test("running", async (t) => {
    await startGateway(
      t,
      chained("a: { from: ./a.ts }, b: { from: ./b.ts }", "sse, auth, a, b, models, rewrite, usage"),
      files,
    );
  });
  t.same(order, ["start a", "start b", "close b", "close a"]);
});

t.test("a plugin that throws fails only its request, is named in the log and not in the response", async (t) => {
  const files = {
    "p.ts":
      'export default class P { request(exchange: { query: { has(name: string): boolean } }) { if (exchange.query.has("bad")) throw new Error("secret reason"); } }',
  };
  const running = await startGateway(t, chained("p: { from: ./p.ts }", "sse, auth, p, models, rewrite, usage"), files);
  const bad = await fetch(`${running.url}/v1/chat/completions?bad=1`, {
    method: "POST",
    headers: asking(),
    body: BODY,
  });
  t.equal(bad.status, 500);
  t.notMatch(await bad.text(), /secret|p\.request/);
  t.match(running.log.lines.at(-1)?.fields, {
    error: { code: "plugin_failed", origin: "p.request", cause: /secret reason/ },
  });
  t.equal((await ask(running.url)).status, 200);
});

t.test("the line of a request has the fields that gateway.yaml adds", async (t) => {
  const running = await startGateway(
    t,
    `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
keys: { test: { key: ${KEY}, owner: Ann, tags: { app: search } } }
log: { fields: [owner, tags, operation, cost_usd, user_agent] }
`,
  );
  const headers = asking({ "user-agent": "curl/8.0" });
  const asked = { method: "POST", headers, body: BODY };
  t.equal((await fetch(`${running.url}/v1/chat/completions`, asked)).status, 200);
  await until(() => running.log.lines.some(({ message }) => message === "exchange"), "the log line");
  t.match(running.log.lines.at(-1)?.fields, {
    ...{ key: "test", owner: "Ann", tags: { app: "search" } },
    ...{ operation: "chat", cost_usd: 0, user_agent: "curl/8.0" },
  });
});

t.test("the limits of many keys are read in parts, so that requests are served meanwhile", async (t) => {
  const { gateway } = await startGateway(t, `${YAML}limits: { default: { rpm: 5 }, groups: { acme: { rpm: 9 } } }\n`);
  const { generation } = gateway;
  const { limiter } = generation;
  const parts: number[] = [];
  const statuses = limiter.statuses.bind(limiter);
  limiter.statuses = (levels) => {
    parts.push(levels.length);
    return statuses(levels);
  };
  const callers = Array.from({ length: 1200 }, (_, n) => ({ id: `k${n}`, name: `key ${n}`, group: "acme" }));
  let turns = 0;
  const counting = setInterval(() => turns++, 0);
  const found = await generation.limitStatuses(callers);
  clearInterval(counting);
  t.equal(found.length, 1201);
  t.match(
    found.find(({ kind }) => kind === "group"),
    { name: "acme", requests: { remaining: 9 } },
  );
  t.same(
    parts.map((part) => part <= 500),
    [true, true, true],
  );
  t.ok(turns > 0, "timers run between the parts");
});

t.test("GET / and the preflights of clients answer without a key", async (t) => {
  const { url } = await startGateway(t, YAML);
  const root = await fetch(url);
  const { service, paths } = (await root.json()) as { service: string; paths: string[] };
  t.equal(service, "model-gateway");
  t.ok(paths.includes("/v1/chat/completions"));
  for (const path of ["/", "/api/hello"]) {
    const head = await fetch(url + path, { method: "HEAD" });
    t.equal(head.status, 200);
    t.equal(await head.text(), "");
  }
});
