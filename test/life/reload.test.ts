import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import type { Attempt } from "../../src/core/attempt.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** `GATEWAY_TEST_RELOADS=500` for the long run, under 300 streams; fewer of both else. */
const RELOADS = Number(process.env["GATEWAY_TEST_RELOADS"] ?? 30);
const STREAMS = RELOADS > 30 ? 300 : 40;
const HEAD = "listen: 127.0.0.1:0\nstore: { ledger: 'sqlite:./gateway.db' }\noverload: { delay: off }\n";
const KEYS = "keys: { test: { key: test-key-0123456789abcdef } }\n";
const BODY = '{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}';

/** A provider that streams in so many pieces, with a pause between any two. */
async function streaming(t: Test) {
  const seen: string[] = [];
  const upstream = await httpUpstream(async ({ rawHeaders }, reply) => {
    seen.push(rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === "authorization") + 1] ?? "");
    reply.setHeader("content-type", "text/event-stream");
    for (let i = 0; i < 10; i++) {
      reply.write(
        `data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"${i}"}}]}\n\n`,
      );
      await after(5 + Math.random() * 40);
    }
    reply.end('data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
  });
  t.teardown(() => upstream.close());
  return { upstream, seen };
}

/** Says in each phase which generation it belongs to. */
const stamp = (version: number) => `
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { Options, slot } from "model-gateway";
globalThis.stampsLoaded = (globalThis.stampsLoaded ?? 0) + 1;
@injectable()
export default class Stamp {
  static options = z.strictObject({ n: z.number() });
  began = slot(() => ({}));
  constructor(@inject(Options) options) { this.n = options.n; }
  access(exchange) { this.began(exchange).by = this.n; }
  response(exchange, head) { head.headers.set("x-stamp", [this.began(exchange).by, this.n, ${version}].join(" ")); }
}`;

const yaml = (origin: URL, n: number) => `${HEAD}${KEYS}
providers: { p: { url: "${origin.origin}/v1", protocol: openai-chat, credential: "$file:./secret" } }
models: { m: { targets: [p:v] } }
plugins: { one: { from: ./stamp.ts, n: ${n} }, two: { from: ./stamp.ts, n: ${n} } }
chains: { llm: [sse, auth, one, models, two, usage], read: [auth] }
`;

const BROKEN = ["models: {", "listen: nowhere\n", "providers: { p: { url: 5 } }\nmodels: {}\n", ""];

async function start(t: Test): Promise<{ running: Running; origin: URL; seen: string[] }> {
  const { upstream, seen } = await streaming(t);
  const files = { "stamp.ts": stamp(0), secret: "secret-of-the-provider-0" };
  const running = await startGateway(t, yaml(upstream.origin, 0).replace(HEAD, HEAD), files);
  return { running, origin: upstream.origin, seen };
}

const ask = ({ url }: Running) =>
  fetch(`${url}/v1/chat/completions`, { method: "POST", headers: asking(), body: BODY });

t.test("a reload while the gateway stops is refused, and reported as such", async (t) => {
  const { gateway, log } = await startGateway(
    t,
    'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n',
  );
  const stopped = gateway.stop();
  await t.rejects(gateway.reload(), { message: "the gateway is stopping" });
  t.match(log.lines.at(-1), {
    message: "the configuration was not reloaded, and nothing has changed",
    fields: { problem: "the gateway is stopping" },
  });
  await stopped;
});

t.test("a reload whose preparation never ends does not delay a stop", async (t) => {
  const yaml = (model: string) => `${HEAD}${KEYS}
providers: { demo: { url: "demo:" } }
models: { ${model}: { targets: [demo:echo] } }
plugins: { endless: { from: ./endless.ts } }
chains: { llm: [auth, models, endless], read: [auth] }
`;
  const code = `export default class Endless {
    async start() {
      if (!globalThis.endless) return;
      globalThis.endless();
      await new Promise(() => {});
    }
    request() {}
  }`;
  const { gateway, folder } = await startGateway(t, yaml("one"), { "endless.ts": code });
  const begun = new Promise<void>((resolve) => Object.assign(globalThis, { endless: resolve }));
  t.teardown(() => Reflect.deleteProperty(globalThis, "endless"));
  writeFileSync(join(folder, "gateway.yaml"), yaml("two"));
  const refused = t.rejects(gateway.reload(), { message: "the gateway is stopping" });
  await begun;
  await gateway.stop();
  await refused;
});

t.test(
  `${RELOADS} reloads, a fifth of them invalid, under ${STREAMS} streams: none fails, none is interrupted`,
  async (t) => {
    const { running, origin } = await start(t);
    const { gateway, folder, log } = running;
    let going = true;
    const counts = { whole: 0, failed: 0, cut: 0, mixed: 0 };
    const client = async () => {
      while (going) {
        const response = await ask(running).catch(() => undefined);
        const [began, ended] = response?.headers.get("x-stamp")?.split(" ") ?? [];
        if (response?.status !== 200) counts.failed++;
        else if (began !== ended) counts.mixed++;
        const text = (await response?.text().catch(() => "")) ?? "";
        if (text.endsWith("data: [DONE]\n\n")) counts.whole++;
        else counts.cut++;
      }
    };
    const clients = Array.from({ length: STREAMS }, client);
    let broken = 0;
    const rss: number[] = [];
    for (let i = 1; i <= RELOADS; i++) {
      const wrong = i % 5 === 0;
      writeFileSync(
        join(folder, "gateway.yaml"),
        wrong ? (BROKEN[(i / 5) % BROKEN.length] as string) : yaml(origin, i),
      );
      // Two versions of the code, in turn: of each there is one module.
      if (i % 3 === 0) writeFileSync(join(folder, "stamp.ts"), stamp(i % 2));
      if (i % 7 === 0) writeFileSync(join(folder, "secret"), `secret-of-the-provider-${i}`);
      const done = await gateway.reload().then(
        () => true,
        () => false,
      );
      t.equal(done, !wrong, `reload ${i}`);
      if (wrong) broken++;
      await after(20);
      if (i % 50 === 0) rss.push(Math.round(process.memoryUsage().rss / 1048576));
    }
    going = false;
    await Promise.all(clients);
    t.same({ failed: counts.failed, cut: counts.cut, mixed: counts.mixed }, { failed: 0, cut: 0, mixed: 0 });
    t.ok(counts.whole >= STREAMS, `${counts.whole} streams were complete`);
    t.equal(gateway.reloads.failed, broken);
    t.equal(log.lines.filter(({ message }) => message.includes("was not reloaded")).length, broken);
    t.equal((globalThis as { stampsLoaded?: number }).stampsLoaded, 2, "each version of the code was loaded once");
    t.comment(`${counts.whole} streams; RSS in MiB: ${rss.join(" ")}`);
    const alone = async () => {
      await until(() => gateway.generations.length === 1);
    };
    await alone();
    t.equal(gateway.generations.length, 1, "the others are closed");
  },
);

t.test(
  "a provider's new secret and a plugin's new code take effect while a stream continues with the old ones",
  async (t) => {
    const { running, origin, seen } = await start(t);
    const { gateway, folder } = running;
    const before = await ask(running);
    writeFileSync(join(folder, "secret"), "another-secret-of-it");
    writeFileSync(join(folder, "stamp.ts"), stamp(7));
    const { changes } = await gateway.reload();
    t.same(changes.map(({ path }) => path).sort(), [
      "plugins.one (code)",
      "plugins.two (code)",
      "providers.p.credential",
    ]);
    t.notMatch(JSON.stringify(changes), /secret-of/);
    const behind = await ask(running);
    t.match(behind.headers.get("x-stamp"), / 7$/);
    t.match(await before.text(), /\[DONE\]/);
    t.match(await behind.text(), /\[DONE\]/);
    t.same(seen.slice(-2), ["Bearer secret-of-the-provider-0", "Bearer another-secret-of-it"]);
    writeFileSync(join(folder, "gateway.yaml"), yaml(origin, 0));
    t.same((await gateway.reload()).changes, [], "nothing has changed");
  },
);

t.test("a generation that is kept alive is ended when its drain is over, in the client's protocol", async (t) => {
  const { running, origin } = await start(t);
  const { gateway, folder } = running;
  const short = yaml(origin, 1).replace(HEAD, `${HEAD}drain: 100ms\n`);
  writeFileSync(join(folder, "gateway.yaml"), short);
  await gateway.reload();
  const response = await ask(running);
  writeFileSync(join(folder, "gateway.yaml"), short.replaceAll("n: 1", "n: 2"));
  await gateway.reload();
  t.equal(gateway.generations.length, 2);
  t.equal(gateway.generations[1]?.active, 1);
  const text = await response.text().catch((error: Error) => error.message);
  t.notMatch(text, /\[DONE\]/);
  await until(() => gateway.generations.length === 1);
  t.match(await (await ask(running)).text(), /\[DONE\]/);
});

t.test("changes that need a restart are reported, each time, and the rest takes effect", async (t) => {
  const { running, origin } = await start(t);
  const { gateway, folder, log } = running;
  const moved = yaml(origin, 3).replace("listen: 127.0.0.1:0", "listen: 127.0.0.1:9");
  writeFileSync(join(folder, "gateway.yaml"), moved);
  t.same((await gateway.reload()).restart, ["listen"]);
  const response = await ask(running);
  t.match(response.headers.get("x-stamp"), /^3 3/);
  await response.text();
  writeFileSync(join(folder, "gateway.yaml"), moved.replaceAll("n: 3", "n: 4"));
  t.same((await gateway.reload()).restart, ["listen"], "as long as it differs from the running one");
  t.ok(log.lines.some(({ message, level }) => level === "warn" && message.includes("next start")));
});

t.test(
  "a plugin's package that has changed is reported as waiting for the next start, and not as reloaded",
  async (t) => {
    const pack = (word: string) =>
      `import { injectable } from "tsyringe";\nexport default class Pack { response(exchange, head) { head.headers.set("x-pack", "${word}"); } }\ninjectable()(Pack);`;
    const yaml = `${HEAD}${KEYS}
providers: { demo: { url: "demo:" } }
models: { m: { targets: [demo:echo] } }
plugins: { pack: { from: pack } }
chains: { llm: [sse, auth, models, pack, rewrite, usage] }
`;
    const running = await startGateway(t, yaml, {
      "node_modules/pack/package.json": '{ "type": "module", "exports": "./main.js" }',
      "node_modules/pack/main.js": pack("old"),
    });
    const word = async () => (await ask(running)).headers.get("x-pack");
    t.equal(await word(), "old");
    writeFileSync(join(running.folder, "node_modules/pack/main.js"), pack("new"));
    t.match(await running.gateway.reload(), { changes: { length: 0 }, restart: ["plugins.pack (package)"] });
    t.equal(await word(), "old");
  },
);

t.test("health is kept where the provider is unchanged, and a removed key ends its running exchanges", async (t) => {
  const { running, origin } = await start(t);
  const { gateway, folder } = running;
  const target = gateway.generation.marketplace.models[0]?.targets[0];
  if (!target) throw new Error("no target");
  const { health } = gateway.generation.upstreams;
  for (let i = 0; i < 20; i++) {
    const attempt = { target } as Attempt;
    health.recordStart(attempt);
    health.recordResponse(attempt, 503);
  }
  t.notOk(health.isUsable(target));
  writeFileSync(join(folder, "gateway.yaml"), yaml(origin, 9));
  await gateway.reload();
  const next = gateway.generation.marketplace.models[0]?.targets[0];
  t.not(next, target);
  t.notOk(gateway.generation.upstreams.health.isUsable(next as typeof target), "it is still at rest");
  writeFileSync(join(folder, "secret"), "a-third-secret-of-it");
  await gateway.reload();
  const fresh = gateway.generation.marketplace.models[0]?.targets[0];
  t.ok(gateway.generation.upstreams.health.isUsable(fresh as typeof target), "another credential gets another attempt");
  const stream = await ask(running);
  writeFileSync(
    join(folder, "gateway.yaml"),
    yaml(origin, 9).replace("test: {", "other: {").replace("abcdef", "fedcba"),
  );
  await gateway.reload();
  t.notMatch(await stream.text().catch(() => ""), /\[DONE\]/);
  t.equal((await ask(running)).status, 401);
});

t.test("the zone of budgets and the store stay those of the start, everywhere", async (t) => {
  const { running, origin } = await start(t);
  const { gateway, folder } = running;
  const { store } = gateway.config;
  writeFileSync(join(folder, "gateway.yaml"), `${yaml(origin, 3)}timezone: Pacific/Auckland\ninstances: 2\n`);
  t.same((await gateway.reload()).restart, ["instances", "timezone"]);
  t.match(gateway.config, { timezone: "UTC", instances: undefined, store });
  t.equal(gateway.generation.config.timezone, "UTC");
  t.same((await gateway.reload()).changes, [], "what waits for the start is no change of the file");
});
