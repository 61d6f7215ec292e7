import { once } from "node:events";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { asking } from "../support/key.ts";
import { type GatewayProcess, startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";

const YAML = `workers: 2
linger: off
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { stamp: { from: ./stamp.ts, n: 1 } }
chains: { llm: [sse, auth, models, stamp, usage], read: [auth] }
`;
const STAMP = `
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { Options } from "model-gateway";
@injectable()
export default class Stamp {
  static options = z.strictObject({ n: z.number() });
  constructor(@inject(Options) options) { this.n = options.n; }
  start() { if (this.n === 3) throw new Error("three is too many"); }
  response(exchange, head) { head.headers.set("x-stamp", this.n + " " + process.pid); }
}`;

/**
 * Its start writes a file, named by what has begun to start in which worker, and waits while the file `hold` exists. With n: 2 the
 * second worker's also waits for the one with n: 3 in the same worker, which should not begin meanwhile.
 */
const SLOW_STAMP = `
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { Options } from "model-gateway";
const folder = import.meta.dirname;
@injectable()
export default class Stamp {
  static options = z.strictObject({ n: z.number() });
  constructor(@inject(Options) options) { this.n = options.n; }
  async start() {
    const begun = (n) => join(folder, "begun-" + n + "-" + process.pid);
    writeFileSync(begun(this.n), "");
    while (existsSync(join(folder, "hold"))) await sleep(20);
    if (this.n !== 2 || readdirSync(folder).filter((name) => name.startsWith("begun-2-")).length === 1) return;
    for (let tries = 0; !existsSync(begun(3)) && tries < 100; tries++) await sleep(20);
    if (existsSync(begun(3))) await sleep(200);
  }
  response(exchange, head) { head.headers.set("x-stamp", this.n + " " + process.pid); }
}`;

/** What both workers answer: each stamp with the number of workers that gave it. One that is busy elsewhere gets no request. */
async function stamps({ url }: GatewayProcess): Promise<Record<string, number>> {
  const found = new Map<string, Set<string>>();
  const body = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}';
  const workers = () => new Set([...found.values()].flatMap((pids) => [...pids])).size;
  for (let i = 0; i < 12 || (workers() < 2 && i < 200); i++) {
    const headers = asking({ connection: "close" });
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    await response.text();
    const [n = "", pid = ""] = response.headers.get("x-stamp")?.split(" ") ?? [];
    found.set(n, (found.get(n) ?? new Set()).add(pid));
  }
  return Object.fromEntries([...found].map(([n, pids]) => [n, pids.size]));
}

/** The number of what each worker serves, as the admin side tells it. */
async function numbers({ admin }: GatewayProcess): Promise<number[]> {
  const { generations } = (await (await fetch(`${admin}/api/generations`)).json()) as {
    generations: { number: number; serving: boolean }[];
  };
  return generations.filter(({ serving }) => serving).map(({ number }) => number);
}

/** Kills the worker that answers the next request. */
async function killOne({ url }: GatewayProcess): Promise<void> {
  const body = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}';
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: asking({ connection: "close" }),
    body,
  });
  await response.text();
  process.kill(Number(response.headers.get("x-stamp")?.split(" ")[1]), "SIGKILL");
}

async function startSlow(t: Test) {
  const gateway = await startProcess(t, YAML, { files: { "stamp.ts": SLOW_STAMP } });
  const { folder } = gateway;
  const begun = (n: number) => readdirSync(folder).filter((name) => name.startsWith(`begun-${n}-`)).length;
  const reloads = () => gateway.text.split("the configuration was reloaded").length - 1;
  const hold = join(folder, "hold");
  return { gateway, begun, reloads, hold };
}

// At the same time: much of it is waiting for the starts of processes.
t.jobs = 2;
t.test("a worker that starts during a reload serves the latest configuration in the end", async (t) => {
  const { gateway, begun, reloads, hold } = await startSlow(t);
  const file = join(gateway.folder, "gateway.yaml");
  const written = readFileSync(file, "utf8");
  const request = (n: number) => {
    writeFileSync(file, written.replace("n: 1 }", `n: ${n} }`));
    gateway.child.kill("SIGHUP");
  };
  writeFileSync(hold, "");
  await killOne(gateway);
  await until(() => begun(1) === 3, "a successor");
  writeFileSync(join(gateway.folder, "stamp.ts"), SLOW_STAMP.replace('"hold"', '"unused"'));
  request(2);
  await until(() => reloads() === 1, "the reload of the other worker");
  rmSync(hold);
  await until(() => begun(2) === 2, "the successor's own reload");
  request(3);
  await until(async () => (await numbers(gateway)).join() === "3,3", "the last reload");
  t.same(await stamps(gateway), { 3: 2 });
  t.equal(await gateway.end("SIGINT"), 0);
});

t.test("so does one that starts while only a plugin's code is reloaded, whichever code it has read", async (t) => {
  const { gateway, begun, reloads, hold } = await startSlow(t);
  const stamp = join(gateway.folder, "stamp.ts");
  const write = (word: string) =>
    writeFileSync(stamp, SLOW_STAMP.replace('this.n + " "', `this.n + "${word} "`).replace('"hold"', '"unused"'));
  writeFileSync(hold, "");
  await killOne(gateway);
  await until(() => begun(1) === 3, "a successor with the old code");
  write("a");
  gateway.child.kill("SIGHUP");
  await until(() => reloads() === 1, "the reload");
  rmSync(hold);
  await until(async () => (await numbers(gateway)).join() === "2,2", "the same number");
  t.same(await stamps(gateway), { "1a": 2 });
  write("b");
  const before = begun(1);
  await killOne(gateway);
  await until(() => begun(1) > before, "a successor with the new code");
  await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "its start");
  gateway.child.kill("SIGHUP");
  await until(async () => (await numbers(gateway)).join() === "3,3", "the same number");
  t.same(await stamps(gateway), { "1b": 2 });
  t.equal(await gateway.end("SIGINT"), 0);
});

t.test("a stop while workers are being replaced starts no further ones, and reloads nothing", async (t) => {
  const { gateway, begun, hold } = await startSlow(t);
  writeFileSync(hold, "");
  gateway.child.kill("SIGUSR2");
  await until(() => begun(1) === 3, "a successor");
  gateway.child.kill("SIGTERM");
  await until(() => gateway.text.includes("SIGTERM: stopping"), "the stop");
  gateway.child.kill("SIGHUP");
  await until(() => gateway.text.includes("the gateway is stopping"), "word of SIGHUP");
  rmSync(hold);
  await once(gateway.child, "exit");
  t.equal(begun(1), 3);
});

t.test("workers reload together: all of them serve the new configuration, or none", async (t) => {
  const gateway = await startProcess(t, YAML, { files: { "stamp.ts": STAMP } });
  const file = join(gateway.folder, "gateway.yaml");
  const written = readFileSync(file, "utf8");
  const reload = async (text: string, word: string) => {
    writeFileSync(file, text);
    const before = gateway.text.length;
    gateway.child.kill("SIGHUP");
    await until(() => gateway.text.slice(before).includes(word), word);
  };
  t.same(await stamps(gateway), { 1: 2 });
  await reload(written.replace("n: 1 }", "n: 2 }"), "was reloaded");
  t.same(await stamps(gateway), { 2: 2 });
  t.same(await numbers(gateway), [2, 2]);
  await reload("models: {", "was not reloaded");
  await reload(written.replace("n: 1 }", "n: 3 }"), "three is too many");
  t.same(await stamps(gateway), { 2: 2 });
  // One that dies is replaced by one that serves what is in force, whatever the file says.
  const pid = gateway.lines().length;
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: asking({ connection: "close" }),
    body: '{"model":"echo","messages":[{"role":"user","content":"hi"}]}',
  });
  await response.text();
  const [, worker] = response.headers.get("x-stamp")?.split(" ") ?? [];
  process.kill(Number(worker), "SIGKILL");
  await until(async () => (await gateway.ready())?.body["workers"] === "1 of 2", "the death");
  await until(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "another one");
  t.same(await stamps(gateway), { 2: 2 });
  t.ok(gateway.lines().length > pid);
  t.same(await numbers(gateway), [2, 2], "it has the number of the serving configuration");
  writeFileSync(file, written.replace("n: 1 }", "n: 4 }"));
  gateway.child.kill("SIGUSR2");
  await until(() => gateway.text.includes("workers are replaced"), "other workers");
  await until(async () => (await numbers(gateway)).join() === "3,3", "those of the reload before, to go on");
  t.equal(await gateway.end("SIGINT"), 0);
});
