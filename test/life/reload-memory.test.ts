import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { asking } from "../support/key.ts";
import { startProcess } from "../support/process.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** `GATEWAY_TEST_RELOADS=500` for the long run; a fifth of them is broken. */
const RELOADS = Number(process.env["GATEWAY_TEST_RELOADS"] ?? 60);
/** Bytes that a reload may leave behind, in the median; a generation has some megabytes. */
const LEFT = 40 * 1024;

/**
 * RSS behind the last reload to that behind the twentieth, when a second generation has stood beside the first: 1.06 with 500
 * (195 and 207 MiB); 1.20 beside other programs, which delay what the compiler makes of hot code, 20 MiB.
 */
const FLAT = 1.15;

/** Tells what the process holds once it has been collected. */
const HELD = `
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc");
export default class Held {
  async serve() {
    for (let i = 0; i < 4; i++) { collect(); await new Promise((next) => setTimeout(next, 10)); }
    const { external, rss } = process.memoryUsage();
    // What the compiler makes of code that has become hot grows for a while in any process.
    const objects = getHeapSpaceStatistics().filter(({ space_name }) => !/code|trusted/.test(space_name));
    const heap = objects.reduce((sum, { space_used_size }) => sum + space_used_size, external);
    return { body: JSON.stringify({ heap, rss }) };
  }
}`;

interface HeldBytes {
  heap: number;
  rss: number;
}

const BROKEN = ["models: {", "listen: nowhere\n", "providers: { p: { url: 5 } }\nmodels: {}\n", ""];

t.setTimeout(60_000 + RELOADS * 2000);

t.test(`${RELOADS} reloads, a fifth of them invalid, leak nothing in a gateway of its own`, async (t) => {
  const upstream = await httpUpstream((_request, reply) => {
    reply.setHeader("content-type", "text/event-stream");
    const frame = (delta: object, reason: string | null) =>
      `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta, finish_reason: reason }] })}\n\n`;
    reply.write(frame({ content: "Hi" }, null));
    setTimeout(() => reply.end(`${frame({}, "stop")}data: [DONE]\n\n`), 100);
  });
  t.teardown(() => upstream.close());
  const yaml = (n: number) => `
providers: { p: { url: "${upstream.origin.origin}/v1", protocol: openai-chat, credential: secret-of-the-provider }, demo: { url: "demo:" } }
models: { m: { context: ${1000 + n}, targets: [p:v] }, echo: { targets: [demo:echo] } }
plugins: { held: { from: ./held.ts } }
paths: { /held: { serve: held } }
`;
  const gateway = await startProcess(t, yaml(0), { files: { "held.ts": HELD } });
  const ask = async () => {
    const body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}';
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    return (await answer.text()).endsWith("data: [DONE]\n\n");
  };
  const held = async () => (await (await fetch(`${gateway.url}/held`, { headers: asking() })).json()) as HeldBytes;
  const said = (message: RegExp) => gateway.lines().filter(({ msg }) => message.test(String(msg))).length;
  const own = readFileSync(join(gateway.folder, "gateway.yaml"), "utf8").replace(yaml(0), "");
  const found: HeldBytes[] = [];
  let broken = 0;
  for (let i = 1; i <= RELOADS; i++) {
    const wrong = i % 5 === 0;
    if (wrong) broken++;
    const text = wrong ? (BROKEN[broken % BROKEN.length] as string) : own + yaml(i);
    writeFileSync(join(gateway.folder, "gateway.yaml"), text);
    const asked = [ask(), ask()];
    gateway.child.kill("SIGHUP");
    const [done, failed] = [i - broken, broken];
    await until(
      () => said(/the configuration was reloaded/) === done && said(/was not reloaded/) === failed,
      `reload ${i}`,
    );
    t.same(await Promise.all(asked), [true, true]);
    if (i % 10 === 0) found.push(await held());
  }
  const heaps = found.map(({ heap }) => heap);
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(2);
  t.comment(`bytes in use, in MiB: ${heaps.map(mib).join(" ")}; RSS: ${found.map(({ rss }) => mib(rss)).join(" ")}`);
  // The first ones fill caches.
  const growths = heaps.slice(2).map((heap, at) => (heap - (heaps[at + 1] as number)) / 10);
  const growth = growths.toSorted((a, b) => a - b)[growths.length >> 1] as number;
  t.ok(growth < LEFT, `${Math.round(growth / 1024)} KiB are leaked by each reload`);
  const [, early, ...later] = found.map(({ rss }) => rss);
  const last = later.at(-1) as number;
  t.ok(last <= FLAT * (early as number), `${mib(last)} MiB of RSS after the last, ${mib(early as number)} after 20`);
});
