// Measures each page of the console and each path of the admin API with a ledger of a million rows and 200 live streams.
// node_modules/.bin/node --import ./src/loader/register.js test/bench/console.ts [rows] [days that they span] [streams]
// [rounds] [an existing store] [parts, like cpu,pages]
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "../../src/core/id.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { SqliteLedger } from "../../src/store/sqlite/ledger.ts";
import { noBrowser, openBrowser } from "../support/browser.ts";
import { KEY } from "../support/key.ts";

const [ROWS = 1_000_000, DAYS = 30, STREAMS = 200, ROUNDS = 7] = process.argv.slice(2).map(Number);
const KEYS = 200;
const MODELS = 20;
const DAY = 86_400_000;
/** Milliseconds between two frames of a live stream. */
const PACE = 100;

const pick = <T>(list: readonly T[]): T => list[Math.floor(Math.random() * list.length)] as T;
const random = (below: number): number => Math.floor(Math.random() * below);

/** Returns rows like a gateway's: most completed, some on a second attempt, some limited, refused or failed. */
function entry(time: number): LedgerEntry {
  const key = random(KEYS);
  // Each key uses a few of the models, and belongs to one team.
  const model = `model-${(key + random(4)) % MODELS}`;
  const [input, output] = [200 + random(20_000), 20 + random(2000)];
  const luck = Math.random();
  const target = luck < 0.02 ? "" : `${pick(["one", "two", "three"])}:${model}`;
  const [status, outcome] =
    luck < 0.02
      ? ([429, "rejected"] as const)
      : luck < 0.04
        ? ([502, "upstream_error"] as const)
        : luck < 0.05
          ? ([499, "aborted"] as const)
          : ([200, "completed"] as const);
  const only = { target, status: status === 499 ? 200 : status, startedAt: 2 + random(5) };
  const before = { target: `four:${model}`, error: "upstream_timeout", message: "It was too slow.", startedAt: 2 };
  const attempts = target === "" ? [] : luck > 0.98 ? [before, { ...only, startedAt: 900 }] : [only];
  return {
    ...{ id: newId(time), time, key: `key_${key}`, group: `team-${key % 12}/part-${key % 40}` },
    ...{ tags: { app: `app-${key % 15}` }, model, target, protocol: "openai-chat", operation: "chat", status, outcome },
    ...{ streaming: luck > 0.4, attempts, firstByte: 150 + random(3000), duration: 800 + random(30_000) },
    usage: { in: { total: input, cached: random(input) }, out: { total: output, reasoning: random(output) }, raw: {} },
    ...{ source: target === "" ? "free" : "reported", cost: target === "" ? 0 : input * 250 + output * 2000 },
  };
}

async function fill(file: string): Promise<void> {
  const database = new SqliteDatabase(file);
  const ledger = new SqliteLedger(database, console.warn);
  const now = Date.now();
  const begun = performance.now();
  for (let n = 0; n < ROWS; n++) {
    ledger.append(entry(Math.floor(now - DAYS * DAY * (1 - n / ROWS))));
    if (n % 20_000 === 0) await ledger.flush();
  }
  await ledger.close();
  database.close();
  console.log(`${ROWS} rows over ${DAYS} days, written in ${Math.round((performance.now() - begun) / 1000)} s`);
}

/** Starts a provider that responds to each request with an endless stream. */
async function provider() {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    const frame = { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content: "word " } }] };
    const text = `data: ${JSON.stringify(frame)}\n\n`;
    const timer = setInterval(() => response.write(text), PACE);
    response.on("close", () => clearInterval(timer));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  return { port: (server.address() as AddressInfo).port, close };
}

/** Returns the CPU seconds used by a process and its threads. */
function cpuOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Formats the minimum, the cost on an otherwise idle machine, with median and maximum. */
const spread = (walls: readonly number[]): string =>
  [Math.min(...walls), median(walls), Math.max(...walls)].map((wall) => wall.toFixed(0)).join(" | ");
const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? 0;

const ASKED = [
  ...[
    "session",
    "now",
    "live",
    "errors?since=1h",
    "errors?since=24h",
    "speed?by=target&since=1h",
    "speed?by=model&since=24h",
  ],
  ...[
    "requests",
    "requests?status=5xx",
    "requests?group=team-3",
    "requests?model=model-7&slower=20000",
    "requests?since=30d&outcome=aborted",
  ],
  ...["requests?since=30d&key=key_nobody", "requests?since=30d&dearer=900000000"],
  ...[
    "spend?by=model",
    "spend?by=key&since=30d",
    "spend?by=model,day&since=30d",
    "spend?by=key&since=30d&series=5",
    "spend?by=tag&since=30d",
    "spend?by=group&since=today",
  ],
  ...[
    "budgets",
    "keys",
    "used",
    "clients",
    "groups?since=30d",
    "providers",
    "models",
    "config",
    "config/diff",
    "generations",
    "audit",
  ],
];
const PAGES = [
  ...[
    "/",
    "/requests",
    "/requests?since=30d&key=key_nobody",
    "/money",
    "/money?since=30d&by=key",
    "/money?since=30d&by=tag",
  ],
  ...["/providers", "/keys", "/config", "/audit"],
];
const PUBLIC_PAGES = ["/", "/models/model-3", "/play"];
const PARTS = (process.argv[7] ?? "cpu,api,watching,pages").split(",");

async function main(folder: string): Promise<void> {
  mkdirSync(join(folder, "data"), { mode: 0o700 });
  const kept = process.argv[6];
  if (kept === undefined) await fill(join(folder, "data", "gateway.db"));
  else copyFileSync(kept, join(folder, "data", "gateway.db"));
  const upstream = await provider();
  const models = Array.from(
    { length: MODELS },
    (_, n) => `  model-${n}: { targets: [one:x${n}], output: 64k, price: { input: 1, output: 2 } }`,
  );
  const keys = Array.from(
    { length: KEYS },
    (_, n) => `  k${n}: { key: bench-key-${n}-0123456789abcdef, group: team-${n % 12}/part-${n % 40} }`,
  );
  const yaml = `listen: 127.0.0.1:0
admin: 127.0.0.1:0
log: { level: error }
warm_up: off
providers: { one: { url: "http://127.0.0.1:${upstream.port}/v1", protocol: openai-chat } }
models:
${models.join("\n")}
limits: { groups: { team-1: { budget: $1_000_000/month } } }
connections: { per_address: 10000 }
keys:
  test: { key: ${KEY} }
${keys.join("\n")}
`;
  writeFileSync(join(folder, "gateway.yaml"), yaml);
  const child = spawn(
    process.execPath,
    ["--import", "./src/loader/register.js", "src/main.ts", "run", "--config", join(folder, "gateway.yaml")],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  while (!output.includes("Try it")) {
    if (child.exitCode !== null) throw new Error("the gateway has not started");
    await sleep(50);
  }
  const base = /listens on (\S+)/.exec(output)?.[1] ?? "";
  const admin = /admin +(\S+)/.exec(output)?.[1] ?? "";
  const ending = new AbortController();
  try {
    if (PARTS.includes("cpu")) await measureCpu(child, admin);
    for (let n = 0; n < STREAMS; n++) {
      const body = JSON.stringify({
        model: `model-${n % MODELS}`,
        stream: true,
        messages: [{ role: "user", content: "Hello" }],
      });
      const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
      const answer = await fetch(`${base}/v1/chat/completions`, {
        method: "POST",
        headers,
        body,
        signal: ending.signal,
      });
      void answer.body?.pipeTo(new WritableStream()).catch(() => {});
    }
    await sleep(5000);
    const [cpu, then] = [cpuOf(child), performance.now()];
    await sleep(10_000);
    const rest = (cpuOf(child) - cpu) / (performance.now() - then);
    console.log(`${STREAMS} streams alone take ${(rest * 1e5).toFixed(0)} % of a core\n`);
    if (PARTS.includes("api")) await measureApi(admin);
    if (PARTS.includes("watching")) await measureWatching(child, admin, rest);
    if (PARTS.includes("pages"))
      await measurePages([...pagesOf(admin, PAGES, "/audit"), ...pagesOf(base, PUBLIC_PAGES, "/models/model-1")]);
  } finally {
    ending.abort();
    child.kill("SIGTERM");
    upstream.close();
  }
}

/** Measures without streams: CPU of all threads, which hardly depends on other load of the machine. */
async function measureCpu(child: ChildProcess, admin: string): Promise<void> {
  console.log("\n| /api/… | CPU ms |\n|---|--:|");
  for (const path of ASKED) {
    await ask(admin, path);
    const cpu = cpuOf(child);
    for (let n = 0; n < ROUNDS; n++) await ask(admin, path);
    console.log(`| ${path} | ${(((cpuOf(child) - cpu) * 1000) / ROUNDS).toFixed(0)} |`);
  }
}

async function ask(admin: string, path: string): Promise<number> {
  const answer = await fetch(`${admin}/api/${path}`);
  const { byteLength } = await answer.arrayBuffer();
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status}`);
  return byteLength;
}

/** Measures with streams: wall time also depends on other load of the machine. */
async function measureApi(admin: string): Promise<void> {
  console.log("\n| /api/… | wall ms, least | median | worst | KB |\n|---|--:|--:|--:|--:|");
  for (const path of ASKED) {
    const walls: number[] = [];
    let bytes = 0;
    for (let n = 0; n < ROUNDS; n++) {
      const start = performance.now();
      bytes = await ask(admin, path);
      walls.push(performance.now() - start);
    }
    console.log(`| ${path} | ${spread(walls)} | ${(bytes / 1024).toFixed(1)} |`);
  }
}

/** Measures what a viewer of the first page costs the gateway. */
async function measureWatching(child: ChildProcess, admin: string, rest: number): Promise<void> {
  const ending = new AbortController();
  const answer = await fetch(`${admin}/api/live/events`, { signal: ending.signal });
  let bytes = 0;
  void (async () => {
    for await (const piece of answer.body ?? []) bytes += (piece as Uint8Array).length;
  })().catch(() => {});
  await sleep(2000);
  const [cpu, begun, before] = [cpuOf(child), performance.now(), bytes];
  await sleep(15_000);
  const lasted = performance.now() - begun;
  const own = ((cpuOf(child) - cpu) * 1000 - rest * 1000 * lasted) / lasted;
  console.log(
    `\nOne who watches: ${(own * 100).toFixed(1)} % of a core, ${((bytes - before) / lasted).toFixed(1)} KB/s`,
  );
  ending.abort();
}

/** Returns pages of one side, each paired with another page of it. */
const pagesOf = (origin: string, paths: readonly string[], other: string) =>
  paths.map((path) => ({ address: origin + path, before: origin + (path === other ? "/" : other) }));

/**
 * Measures the time until a page has shown all its initial content, in a browser that has cached its files: by a click on
 * another page of the same side, by loading the page in that one's tab, and in a blank tab, for which the browser first starts
 * a process.
 */
async function measurePages(pages: readonly { address: string; before: string }[]): Promise<void> {
  if (noBrowser) return console.log(noBrowser);
  const browser = await openBrowser();
  console.log(
    "\n| page | clicked: least ms | median | worst | loaded: least | median | worst | blank tab: least | median | worst |",
  );
  console.log(`|---${"|--:".repeat(9)}|`);
  for (const { address, before } of pages) {
    const page = await (await browser.newContext()).newPage();
    const times = { click: [] as number[], load: [] as number[], blank: [] as number[] };
    for (let n = 0; n < ROUNDS; n++) {
      await page.goto("about:blank");
      await page.goto(address, { waitUntil: "commit" });
      times.blank.push(await page.evaluate<number>(SHOWN));
      await page.goto(before);
      await page.evaluate(SHOWN);
      await page.goto(address, { waitUntil: "commit" });
      times.load.push(await page.evaluate<number>(SHOWN));
      await page.goto(before);
      // Scripts of other pages are prefetched when the browser is idle.
      await sleep(REST);
      times.click.push(await page.evaluate<number>(clicked(address)));
    }
    const { pathname, search } = new URL(address);
    console.log(`| ${pathname}${search} | ${Object.values(times).map(spread).join(" | ")} |`);
    await page.context().close();
  }
  await browser.close();
}

/** Milliseconds that a user looks at a page before a click. */
const REST = 3000;

const IS_SHOWN = `document.querySelector("h1") && !document.querySelector("[aria-busy=true]")`;

/** Checked in each frame, so that nothing delays the result: milliseconds since the navigation began. */
const SHOWN = `new Promise((told) => {
  const look = () => (${IS_SHOWN} ? told(performance.now()) : requestAnimationFrame(look));
  look();
})`;

/** The same since a click on a link to an address. */
const clicked = (address: string): string => `new Promise((told) => {
  const link = document.body.appendChild(document.createElement("a"));
  link.href = ${JSON.stringify(address)};
  link.dataset.page = "1";
  const begun = performance.now();
  link.click();
  link.remove();
  const look = () => (${IS_SHOWN} ? told(performance.now() - begun) : requestAnimationFrame(look));
  requestAnimationFrame(look);
})`;

const folder = mkdtempSync(join(tmpdir(), "gateway-console-"));
try {
  if (existsSync("src/main.ts")) await main(folder);
  else console.error("Run it in the folder of the sources.");
} finally {
  rmSync(folder, { recursive: true, force: true });
}
