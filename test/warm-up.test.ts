import { chmodSync, existsSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import t from "tap";
import { WarmUp } from "../src/warm-up.ts";
import { fullCollections } from "./support/collections.ts";
import { asking, MemoryLog } from "./support/gateway.ts";
import { startProcess } from "./support/process.ts";
import { until } from "./support/until.ts";

const sockets = (): number => process.getActiveResourcesInfo().filter((name) => /TCP/.test(name)).length;

t.test("a warm-up has requests of every kind answered, and leaves nothing open", async (t) => {
  const before = sockets();
  const log = new MemoryLog();
  const warmUp = await WarmUp.run(200, log);
  t.ok(warmUp && warmUp.sent >= 8);
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  t.ok(
    loaded.some((file) => file.includes("/prom-client/")),
    "no request waits for what the first scrape needs",
  );
  await warmUp?.close();
  await until(() => sockets() <= before, "its sockets to close");
  t.same(log.lines, []);
});

t.test("folders that killed processes have left are removed after an hour", async (t) => {
  const left = mkdtempSync(join(tmpdir(), "gateway-warm-up-"));
  const running = mkdtempSync(join(tmpdir(), "gateway-warm-up-"));
  t.teardown(() => rmSync(running, { recursive: true }));
  writeFileSync(join(left, "gateway.db"), "");
  utimesSync(left, new Date(), new Date(Date.now() - 61 * 60_000));
  await (await WarmUp.run(1, new MemoryLog()))?.close();
  t.same([existsSync(left), existsSync(running)], [false, true]);
});

const isRoot = process.getuid?.() === 0;

t.test("a folder for temporary files need not be readable", { skip: isRoot && "root reads all" }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  chmodSync(folder, 0o300);
  const { TMPDIR } = process.env;
  process.env["TMPDIR"] = folder;
  const log = new MemoryLog();
  await (await WarmUp.run(1, log))?.close();
  if (TMPDIR === undefined) delete process.env["TMPDIR"];
  else process.env["TMPDIR"] = TMPDIR;
  chmodSync(folder, 0o700);
  t.same(log.lines, []);
});

t.test("with a time of 0 there is no warm-up", async (t) => {
  t.equal(await WarmUp.run(0, new MemoryLog()), undefined);
});

t.test("what every start waits for takes nothing of its time", async (t) => {
  const folder = t.testdir();
  const slow = `
    let first = true;
    export default class Slow {
      async start() {
        if (first) await new Promise((done) => setTimeout(done, 1500));
        first = false;
      }
      response() {}
    }`;
  const plugin = join(folder, "slow.ts");
  writeFileSync(plugin, slow);
  writeFileSync(join(folder, "answers.json"), "[]");
  writeFileSync(join(folder, "requests.json"), JSON.stringify([{ times: 1, path: "/readyz" }]));
  const file = `listen: 127.0.0.1:0
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { slow: { from: ${JSON.stringify(plugin)} } }
chains: { llm: [sse, auth, slow, models, rewrite] }
store: { ledger: "sqlite::memory:" }
`;
  writeFileSync(join(folder, "gateway.yaml"), file);
  const log = new MemoryLog();
  const warmUp = await WarmUp.run(1200, log, pathToFileURL(`${folder}/`));
  t.same(log.lines, []);
  t.ok((warmUp?.sent ?? 0) > 8, "more than the first request of each client");
  await warmUp?.close();
});

t.test("it continues while the process is idle, and ends when it is closed", async (t) => {
  const warmUp = (await WarmUp.run(1, new MemoryLog())) as WarmUp;
  const serving = { begun: 0, running: 0 };
  const requests = setInterval(() => serving.begun++, 50);
  const { sent } = warmUp;
  const done = warmUp.continue(serving);
  await after(1500);
  t.equal(warmUp.sent, sent, "nothing is sent while there are real requests");
  serving.running = 1;
  clearInterval(requests);
  await after(500);
  t.equal(warmUp.sent, sent, "nor while one of them runs, like a stream");
  serving.running = 0;
  await until(() => warmUp.sent > sent + 20, "it to go on");
  await warmUp.close();
  await done;
});

t.test("it ends when real requests have compiled the same code, and when the process stops", async (t) => {
  const before = sockets();
  for (const begun of [10_000, Number.POSITIVE_INFINITY]) {
    const warmUp = (await WarmUp.run(1, new MemoryLog())) as WarmUp;
    const { sent } = warmUp;
    await warmUp.continue({ begun, running: 0 });
    t.equal(warmUp.sent, sent);
    await until(() => sockets() <= before, "its sockets to close");
  }
});

t.test("when it has ended in an idle process, the heap is collected", async (t) => {
  const warmUp = (await WarmUp.run(1, new MemoryLog())) as WarmUp;
  const collections = fullCollections(t);
  await warmUp.continue({ begun: 10_000, running: 0 });
  await until(() => collections() > 0, "the collection to end");
});

t.test("a gateway whose warm-up fails starts all the same, and reports it", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const log = new MemoryLog();
  const place = pathToFileURL(`${folder}/`);
  t.equal(await WarmUp.run(100, log, place), undefined);
  writeFileSync(join(folder, "answers.json"), "[]");
  writeFileSync(join(folder, "requests.json"), JSON.stringify([{ times: 1, path: "/v1/none", body: {} }]));
  const file =
    "listen: 127.0.0.1:0\nproviders: { demo: { url: 'demo:' } }\nmodels: { echo: { targets: [demo:echo] } }\n";
  writeFileSync(join(folder, "gateway.yaml"), `${file}store: { ledger: "sqlite::memory:" }\n`);
  t.equal(await WarmUp.run(100, log, place), undefined);
  t.match(
    log.lines.map(({ level, fields }) => `${level} ${fields["cause"]}`),
    [/^warn .*ENOENT/, /^warn .*The warm-up got HTTP\/1.1 404/],
  );
});

t.test("a warm-up leaves nothing in the log and the ledger, before and while real requests are served", async (t) => {
  const yaml = "warm_up: 100ms\nproviders: { demo: { url: 'demo:' } }\nmodels: { echo: { targets: [demo:echo] } }\n";
  // Its provider is in the process itself, and not behind a proxy.
  const running = await startProcess(t, yaml, { env: { HTTP_PROXY: "http://127.0.0.1:9" } });
  const body = JSON.stringify({ model: "echo", messages: [{ role: "user", content: "Hi" }] });
  for (let i = 0; i < 3; i++) {
    const answer = await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(answer.status, 200);
    await answer.text();
    await after(100);
  }
  t.equal(await running.end("SIGINT"), 0);
  t.equal(running.lines().length, 3);
  t.same(running.ledger(), { outcomes: { completed: 3 }, twice: 0 });
});
