import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { asking } from "../support/gateway.ts";
import { eventually, type GatewayProcess, startProcess } from "../support/process.ts";

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

t.test("workers reload together: all of them serve the new configuration, or none", async (t) => {
  const gateway = await startProcess(t, YAML, { files: { "stamp.ts": STAMP } });
  const file = join(gateway.folder, "gateway.yaml");
  const written = readFileSync(file, "utf8");
  const reload = async (text: string, word: string) => {
    writeFileSync(file, text);
    const before = gateway.text.length;
    gateway.child.kill("SIGHUP");
    await eventually(() => gateway.text.slice(before).includes(word), word);
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
  await eventually(async () => (await gateway.ready())?.body["workers"] === "1 of 2", "the death");
  await eventually(async () => (await gateway.ready())?.body["workers"] === "2 of 2", "another one");
  t.same(await stamps(gateway), { 2: 2 });
  t.ok(gateway.lines().length > pid);
  t.same(await numbers(gateway), [2, 2], "it has the number of the serving configuration");
  writeFileSync(file, written.replace("n: 1 }", "n: 4 }"));
  gateway.child.kill("SIGUSR2");
  await eventually(() => gateway.text.includes("workers are replaced"), "other workers");
  await eventually(async () => (await numbers(gateway)).join() === "3,3", "those of the reload before, to go on");
  t.equal(await gateway.end("SIGINT"), 0);
});
