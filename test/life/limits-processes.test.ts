import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import t from "tap";
import { journalFolder, listJournals } from "../../src/store/journal/files.ts";
import { ask, BODY, page, passed, provider, yaml } from "../support/limited.ts";
import { startProcess } from "../support/process.ts";
import { ROOT } from "../support/processes.ts";
import { until } from "../support/until.ts";

t.test("a gateway that was killed remembers its spending, and has no reservations of dead processes", async (t) => {
  const upstream = await provider(t);
  const file = yaml(upstream.origin, "$0.10");
  const first = await startProcess(t, file);
  t.equal(passed(await Promise.all(Array.from({ length: 6 }, () => ask(first.url)))), 6);
  const hanging = Array.from({ length: 4 }, () => ask(first.url, BODY.replace("{", '{"user":"hang",')));
  await until(() => upstream.seen.length === 10, "the requests that hang");
  t.equal(await ask(first.url), 429, "six are spent, four are reserved");
  await first.end("SIGKILL");
  await Promise.all(hanging);
  const second = await startProcess(t, file, { folder: first.folder });
  const statuses = await Promise.all(Array.from({ length: 20 }, () => ask(second.url)));
  t.equal(passed(statuses), 4, "a request without an answer costs nothing");
  t.match(await page(second), [{ budgets: [{ spent: 0.1, reserved: 0 }] }, { budgets: [{ spent: 0.1, reserved: 0 }] }]);
  t.equal(await second.end(), 0);
  const third = await startProcess(t, file, { folder: first.folder });
  t.equal(await ask(third.url), 429);
});

for (const [how, signal, more] of [
  ["stopped", "SIGTERM", ""],
  ["killed", "SIGKILL", ""],
  ["stopped, with workers", "SIGTERM", "workers: 2"],
] as const)
  t.test(`a gateway that was ${how} remembers the requests of the last minute`, async (t) => {
    const upstream = await provider(t);
    const file = yaml(upstream.origin, "$100", more).replace("default: {", "default: { rpm: 5,");
    const first = await startProcess(t, file);
    for (let i = 0; i < 3; i++) t.equal(await ask(first.url), 200);
    await first.end(signal);
    const second = await startProcess(t, file, { folder: first.folder });
    // They are read while it starts, and after that where this takes longer.
    await until(async () => (await page(second))[0]?.requests_per_minute?.remaining === 2, "the earlier requests");
    const statuses = await Promise.all(Array.from({ length: 6 }, () => ask(second.url)));
    t.equal(passed(statuses), 2, statuses.join());
  });

t.test(
  "two gateways on one file that count limits in memory warn as long as there are two, and continue",
  async (t) => {
    const upstream = await provider(t);
    const file = yaml(upstream.origin, "$100");
    const first = await startProcess(t, file);
    const second = await startProcess(t, file, { folder: first.folder });
    for (const { url } of [first, second]) t.equal(await ask(url), 200);
    const limits = async (of: typeof first) => (await of.ready())?.body["limits"];
    for (const each of [first, second]) {
      await until(async () => (await limits(each)) === "twice", "both to say so");
      t.match(await each.ready(), { status: 200, body: { why: [/^another gateway uses the same store/] } });
      await until(() => each.text.includes("each counts limits in its own memory"), "a line of the log");
      t.equal(each.text.split("each counts limits in its own memory").length, 2, "once in the log");
      t.equal(await ask(each.url), 200);
    }
    t.match(await check(first.folder), { code: 1, text: /error: another gateway uses the same store.*1 problem/s });
    t.equal(await first.end(), 0);
    await until(async () => (await limits(second)) === "ok", "the other one to be alone");
    t.match(await check(first.folder), { code: 0, text: /gateway\.yaml: ok/ });
  },
);

t.test(
  "workers are one gateway: beside them, and after a gateway was killed just now, check reports nothing",
  async (t) => {
    const upstream = await provider(t);
    const file = yaml(upstream.origin, "$100", "workers: 2");
    const first = await startProcess(t, file);
    const writing = () => listJournals(journalFolder(join(first.folder, "gateway.db")));
    await until(async () => {
      await ask(first.url);
      return writing().length === 2;
    }, "both workers to have served");
    t.match(await check(first.folder), { code: 0, text: /gateway\.yaml: ok/ });
    const alone = await startProcess(t, yaml(upstream.origin, "$100"), { folder: first.folder });
    await ask(alone.url);
    t.match(await check(first.folder), { code: 1, text: /error: another gateway uses the same store/ });
    await alone.end("SIGKILL");
    t.match(await check(first.folder), { code: 0, text: /gateway\.yaml: ok/ });
  },
);

/** What `check` says of a folder's gateway.yaml. */
async function check(folder: string): Promise<{ code: number | null; text: string }> {
  const child = spawn(join(ROOT, "bin/model-gateway"), ["check"], { cwd: folder });
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (more: Buffer) => (text += more));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, text };
}
