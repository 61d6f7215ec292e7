import { spawnSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as after } from "node:timers/promises";
import t, { type Test } from "tap";
import Record from "../../plugins/record.ts";
import { SqliteMaintenance } from "../../src/store/sqlite/maintenance.ts";
import { restoreSqlite } from "../../src/store/sqlite/restore.ts";
import { drive } from "../../src/testing.ts";
import { asking } from "../support/key.ts";
import { type GatewayProcess, type ProcessOptions, startProcess } from "../support/process.ts";
import { mixedProvider, traffic } from "../support/traffic.ts";
import { until } from "../support/until.ts";

/** Seconds for which there is no room, and requests in each. */
const SECONDS = Number(process.env["GATEWAY_TEST_FULL_SECONDS"] ?? 3);
const RATE = Number(process.env["GATEWAY_TEST_FULL_RATE"] ?? 100);

/** Whether a tool is there, and may do that here. */
const works = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0;

const TMPFS = (size: string) => ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs"];

interface Disk {
  fill(): void;
  free(): void;
}

/** Traffic while there is room, while there is none, and while there is again: no row may be missing then. */
async function throughFullDisk(t: Test, options: ProcessOptions, { fill, free }: Disk) {
  const upstream = await mixedProvider();
  t.teardown(() => upstream.close());
  const yaml = `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { m: { targets: [up:m], price: { input: 1, output: 1 } } }
`;
  const gateway = await startProcess(t, yaml, options);
  const stop = traffic(gateway.port, RATE);
  t.teardown(stop);
  await after(500);
  fill();
  const state = async () => (await gateway.ready())?.body["store"];
  await until(async () => (await state()) === "waiting", "the store to wait");
  await after(SECONDS * 1000);
  t.equal(await state(), "waiting");
  free();
  await until(async () => (await state()) === "ok", "the store to be well again");
  await after(500);
  const { whole: answered } = await stop();
  t.equal(await gateway.end("SIGINT"), 0);
  const { outcomes, twice } = gateway.ledger();
  const rows = gateway.rows();
  t.ok(answered.length > (SECONDS * RATE) / 2, `${answered.length} answers`);
  t.same(
    answered.filter((id) => rows[id] !== "completed"),
    [],
    "every answered request has a completed row",
  );
  t.equal(twice, 0);
  t.same(
    outcomes,
    { completed: upstream.seen.length },
    "no request failed, and each that a provider received has its row",
  );
  const told = gateway.lines().map(({ msg, message }) => String(msg ?? message));
  t.ok(told.some((line) => /journal cannot be written|ledger cannot be written/.test(line)));
  const over = gateway.lines().filter(({ msg }) => /being written again; 0 (?:lines|entries) were/.test(String(msg)));
  t.ok(over.length > 0);
  t.same(new Set(over.map(({ level }) => level)), new Set([30]), "a recovery is not an error");
  t.comment(`${SECONDS} s without room at ${RATE}/s: ${answered.length} answers, ${upstream.seen.length} rows`);
}

/** Why nothing is tried; `GATEWAY_TEST_DISK=required` fails where no file system can be mounted. */
const noDisk = ((): string | false => {
  if (process.env["GATEWAY_TEST_DISK"] === "required") return false;
  const mount = mkdtempSync(join(tmpdir(), "gateway-disk-"));
  const mounted = works("mount", ...TMPFS("1m"), mount) && works("umount", mount);
  rmSync(mount, { recursive: true, force: true });
  return mounted ? false : "no file system can be mounted here";
})();

/** A file system of its own and what takes all room of it. */
function disk(t: Test, size: string): { mount: string } & Disk {
  const mount = mkdtempSync(join(tmpdir(), "gateway-disk-"));
  t.teardown(() => rmSync(mount, { recursive: true, force: true }));
  if (!works("mount", ...TMPFS(size), mount)) throw new Error("No file system can be mounted here: mount -t tmpfs");
  t.teardown(() => works("umount", mount));
  const ballast = join(mount, "ballast");
  return {
    mount,
    fill() {
      const file = openSync(ballast, "w");
      // To the last byte, whatever else is written meanwhile.
      for (const size of [65_536, 1])
        try {
          for (;;) writeSync(file, Buffer.alloc(size));
        } catch (thrown) {
          if ((thrown as NodeJS.ErrnoException).code !== "ENOSPC") throw thrown;
        }
      closeSync(file);
    },
    free: () => unlinkSync(ballast),
  };
}

t.test("a disk that is full for a while loses no row", { skip: noDisk }, async (t) => {
  const own = disk(t, "8m");
  const folder = join(own.mount, "gateway");
  mkdirSync(folder);
  await throughFullDisk(t, { folder }, own);
});

t.test(
  "a gateway that starts while the disk is full serves requests, and records them as soon as there is room",
  { skip: noDisk },
  async (t) => {
    const own = disk(t, "4m");
    const { mount, fill, free } = own;
    fill();
    const driven = await drive(Record, { options: { sample: 1, file: join(mount, "recorded.db") } });
    t.teardown(() => driven.close());
    t.equal((await driven.ask({ protocol: "openai-chat" })).status, 200);
    const dropped = () => driven.log.filter(({ message }) => message.startsWith("exchanges were not recorded"));
    await until(() => dropped().length > 0, "a word on what is dropped");
    t.match(dropped(), [{ fields: { cause: /full/ } }]);
    free();
    const { headers } = await driven.ask({ protocol: "openai-chat" });
    t.ok(await driven.plugin.recorded?.(headers["x-request-id"] ?? ""));
  },
);

const ADMIN = { authorization: "Bearer admin-token-0123456789abcdef" };

/** A gateway that has answered eleven requests since its disk is full. */
async function withUnwritten(t: Test, { mount, fill }: { mount: string } & Disk, more: string) {
  const folder = join(mount, "gateway");
  mkdirSync(folder);
  const yaml = `providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: 1, output: 1 } } }
admin: { listen: 127.0.0.1:0, token: admin-token-0123456789abcdef }
${more}`;
  const gateway = await startProcess(t, yaml, { folder });
  fill();
  const body = '{"model":"echo","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}';
  for (let i = 0; i < 11; i++) {
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
    t.equal(answer.status, 200);
    await answer.text();
  }
  const again = (drain: string) => startProcess(t, yaml.replace(/drain: .*/, drain), { folder });
  return { gateway, folder, again };
}

const attention = async ({ admin }: GatewayProcess): Promise<string> => {
  const { attention } = (await (await fetch(`${admin}/api/now`, { headers: ADMIN })).json()) as {
    attention: { kind: string; message: string }[];
  };
  return attention.flatMap(({ kind, message }) => (kind === "ledger" ? [message] : [])).join("\n");
};

const said = (gateway: GatewayProcess, what: RegExp): boolean =>
  gateway.lines().some(({ msg }) => what.test(String(msg)));

for (const workers of [1, 2])
  t.test(
    `rows in memory only are reported, and a stop waits until they can be written: workers: ${workers}`,
    { skip: noDisk },
    async (t) => {
      const own = disk(t, "8m");
      const { gateway } = await withUnwritten(t, own, `workers: ${workers}\ndrain: 60s\nlinger: off\n`);
      const told =
        /22 lines of the journal are in memory only, as \S+gateway\.db\.journal cannot be written \(ENOSPC.*\): free room before it is stopped/;
      await until(async () => told.test(await attention(gateway)), "what needs somebody");
      const logged = /journal in \S+gateway\.db\.journal cannot be written: ENOSPC.* in memory only: free room/;
      await until(() => said(gateway, logged), "its log line, which may come later");
      const metrics = await (await fetch(`${gateway.admin}/metrics`, { headers: ADMIN })).text();
      t.match(metrics, /^gateway_journal_unwritten_lines 22$/m);
      t.match(metrics, /^gateway_ledger_lag_seconds [0-9.]*[1-9]/m);
      t.match(metrics, /^gateway_journal_oldest_seconds [0-9.]*[1-9]/m);
      gateway.child.kill("SIGTERM");
      await until(() => said(gateway, /The stop waits for \d\d s .*in memory only/), "a stop that waits");
      await after(500);
      t.equal(gateway.child.exitCode, null);
      own.free();
      t.equal(await gateway.ended, 0);
      t.same(gateway.ledger(), { outcomes: { completed: 11 }, twice: 0 });
      t.notOk(said(gateway, /lost/) && !said(gateway, /0 lines were lost/));
    },
  );

for (const workers of [1, 2])
  t.test(
    `rows that are lost in the end are in the log, and can be restored: workers: ${workers}`,
    { skip: noDisk },
    async (t) => {
      const own = disk(t, "8m");
      const { gateway, folder, again } = await withUnwritten(t, own, `workers: ${workers}\ndrain: 1s\nlinger: off\n`);
      t.equal(await gateway.end("SIGTERM"), 1, "no stop like others");
      t.ok(
        said(
          gateway,
          /Lines of the ledger's journal that are lost, as \S+ cannot be written: \d+\. What they held follows/,
        ),
      );
      const lost = gateway.lines().flatMap(({ journal }) => (journal ? [JSON.stringify(journal)] : []));
      t.equal(lost.length, 11, "one of each exchange");
      t.notMatch(lost.join(""), /test-key|gw_/, "no secrets");
      own.free();
      const folderOf = join(folder, "gateway.db.journal");
      mkdirSync(folderOf, { recursive: true });
      writeFileSync(join(folderOf, "1-1-1-000001.jsonl"), `${lost.join("\n")}\n`);
      const next = await again("drain: 30s");
      await until(() => next.ledger().outcomes["completed"] === 11, "the rows");
      t.equal(await next.end("SIGINT"), 0);
      t.same(next.ledger(), { outcomes: { completed: 11 }, twice: 0 });
    },
  );

/** A gateway.yaml with that price, whose store is on a disk of its own. */
const priced = (ledger: string, input: number, workers: number) => `workers: ${workers}
store: { ledger: "sqlite:${ledger}" }
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo], price: { input: ${input}, output: 1 } } }
`;

t.test(
  "a start on a full disk reports it in one line, and a reload stores its prices when there is room",
  { skip: noDisk },
  async (t) => {
    const own = disk(t, "8m");
    const { mount, fill, free } = own;
    const ledger = join(mount, "gateway", "gateway.db");
    const place = join(mount, "gateway");
    const started = (workers: number) =>
      startProcess(t, priced(ledger, 1, workers)).catch(({ message }: Error) => message);
    const refused = async (workers: number) => {
      const text = String(await started(workers));
      t.ok(text.includes(`the disk is full; free space in ${place} and try again`), text);
      t.notMatch(text, /^ +at |has died, and is replaced/m);
    };
    mkdirSync(place);
    fill();
    for (const workers of [1, 2]) await refused(workers);
    free();
    const gateway = await startProcess(t, priced(ledger, 1, 1));
    fill();
    // What SQLite keeps beside its file may have room for one more.
    let price = 1;
    while (!said(gateway, /cannot be stored yet/) && ++price < 60) {
      writeFileSync(
        join(gateway.folder, "gateway.yaml"),
        `${priced(ledger, price, 1)}listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n`,
      );
      gateway.child.kill("SIGHUP");
      await after(250);
    }
    const cause = gateway.lines().find(({ msg }) => /cannot be stored yet/.test(String(msg)))?.["cause"];
    t.equal(cause, `${ledger}: the disk is full; free space in ${place} and try again.`);
    t.notOk(said(gateway, /was not reloaded/));
    free();
    const prices = () => {
      const database = new DatabaseSync(ledger, { readOnly: true });
      const count = database.prepare("select count(*) as count from price").get()?.["count"];
      database.close();
      return count;
    };
    await until(() => prices() === price, "the prices of all reloads");
    await gateway.end("SIGINT");
    // As after a clean end: nothing is kept beside the file.
    const whole = new DatabaseSync(ledger);
    whole.prepare("select count(*) from price").get();
    whole.close();
    fill();
    await refused(1);
    free();
  },
);

t.test("a backup onto a full disk leaves no file, and says where room is needed", { skip: noDisk }, async (t) => {
  const { mount, fill } = disk(t, "1m");
  fill();
  const care = new SqliteMaintenance(join(t.testdir(), "gateway.db"));
  t.teardown(() => care.close());
  const file = join(mount, "copy.db");
  await t.rejects(
    care.backup(file, () => {}),
    { message: `${file}: the disk is full; free space in ${mount} and try again.` },
  );
  t.same(readdirSync(mount), ["ballast"]);
});

t.test("a restore onto a full disk changes nothing, and says where room is needed", { skip: noDisk }, async (t) => {
  const { mount, fill } = disk(t, "1m");
  const [path, file] = [join(mount, "gateway.db"), join(t.testdir(), "copy.db")];
  const care = new SqliteMaintenance(path);
  await care.backup(file, () => {});
  care.close();
  fill();
  const before = readdirSync(mount);
  const terms = { force: false, author: { who: "cli:me", address: "here" }, progress: () => {} };
  await t.rejects(restoreSqlite(path, file, terms), {
    message: `${path}: the disk is full; free space in ${mount} and try again.`,
  });
  t.same(readdirSync(mount), before);
});
