import { execFile } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import t from "tap";
import { openStores } from "../../src/store/open.ts";
import { loadOrCreateSecret, missingSecretWarning } from "../../src/store/secret.ts";
import { runKilledAfter } from "../support/killed-after.ts";
import { entry } from "../support/ledger-contract.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-secret-"));
t.teardown(() => rmSync(folder, { recursive: true, force: true }));
const LOADER = new URL("../../src/loader/register.js", import.meta.url).href;
const SECRET = new URL("../../src/store/secret.ts", import.meta.url).href;
const silent = (message: string) => t.fail(message);

t.test("a secret is created once, readable by its owner only, and stored beside the ledger", async (t) => {
  const ledger = join(folder, "new", "gateway.db");
  const secret = loadOrCreateSecret(ledger, silent);
  t.equal(secret.length, 32);
  t.same(loadOrCreateSecret(ledger, silent), secret);
  if (process.platform !== "win32") t.equal(statSync(`${ledger}.secret`).mode & 0o777, 0o600);
  t.notSame(loadOrCreateSecret(join(folder, "other.db"), silent), secret);
});

t.test("a process killed while it writes a secret leaves nothing that a later start refuses", async (t) => {
  const ledger = join(folder, "killed", "gateway.db");
  const script = `module.loadOrCreateSecret(${JSON.stringify(ledger)}, () => {});`;
  const { killed, stderr } = runKilledAfter("writeFileSync", ".secret", new URL(SECRET), script);
  t.ok(killed, stderr);
  t.equal(loadOrCreateSecret(ledger, silent).length, 32);
  t.same(readdirSync(join(folder, "killed")), ["gateway.db.secret"], "nor does its unfinished file stay");
});

/**
 * Creates a secret as another process does that starts at the same moment, on a file system without hard links, and is
 * interrupted before it writes.
 */
const CREATING = `
  const { parentPort, workerData } = require("node:worker_threads");
  const { openSync, writeSync, closeSync } = require("node:fs");
  const fd = openSync(workerData, "wx", 0o600);
  parentPort.postMessage("created it");
  setTimeout(() => (writeSync(fd, "ab".repeat(32)), closeSync(fd)), 200);
`;

t.test("a secret that another process creates at the same moment is read once it is written", async (t) => {
  const ledger = join(folder, "interrupted.db");
  const other = new Worker(CREATING, { eval: true, workerData: `${ledger}.secret` });
  await once(other, "message");
  t.equal(loadOrCreateSecret(ledger, silent).toString("hex"), "ab".repeat(32));
  await once(other, "exit");
});

t.test("of processes that create a secret at once, all read the same", async (t) => {
  const ledger = join(folder, "several.db");
  const script = `import(${JSON.stringify(SECRET)}).then(({ loadOrCreateSecret }) =>
    console.log(loadOrCreateSecret(${JSON.stringify(ledger)}, () => {}).toString("hex")));`;
  const found = await Promise.all(
    [1, 2, 3].map(() => promisify(execFile)(process.execPath, ["--import", LOADER, "-e", script])),
  );
  const own = loadOrCreateSecret(ledger, silent).toString("hex");
  t.same(
    found.map(({ stdout }) => stdout.trim()),
    [own, own, own],
  );
});

t.test("a new secret beside earlier exchanges is reported, with what no longer works", async (t) => {
  const ledger = join(folder, "used.db");
  const { ledger: rows, close } = openStores(ledger, [], silent);
  loadOrCreateSecret(ledger, silent);
  rows.append(entry());
  await close();
  t.equal(missingSecretWarning(ledger), undefined);
  rmSync(`${ledger}.secret`);
  t.match(missingSecretWarning(ledger), /the next start makes a new one.*Restore the old file/);
  const told: string[] = [];
  loadOrCreateSecret(ledger, (message) => told.push(message));
  t.match(told, [
    /used\.db\.secret was missing, and a new one was made.*gw1state.*sign in again.*store backup keeps it/,
  ]);
  loadOrCreateSecret(ledger, silent);
  t.equal(missingSecretWarning(join(folder, "nowhere.db")), undefined);
  const unused = join(folder, "unused.db");
  await openStores(unused, [], silent).close();
  t.equal(missingSecretWarning(unused), undefined, "nothing depends on it");
  loadOrCreateSecret(unused, silent);
});

t.test("a ledger in memory stores none", async (t) => {
  t.notSame(loadOrCreateSecret(":memory:", silent), loadOrCreateSecret(":memory:", silent));
});

t.test("a file that others can read is reported", { skip: process.platform === "win32" }, async (t) => {
  const ledger = join(folder, "open.db");
  loadOrCreateSecret(ledger, silent);
  chmodSync(`${ledger}.secret`, 0o644);
  const uses: string[] = [];
  loadOrCreateSecret(ledger, (message) => uses.push(message));
  t.match(uses, [/chmod 600 .*open\.db\.secret/]);
});

t.test("a file with other content is not taken for a secret, and one that cannot be created is named", async (t) => {
  const ledger = join(folder, "broken.db");
  writeFileSync(`${ledger}.secret`, "hello\n", { mode: 0o600 });
  t.throws(() => loadOrCreateSecret(ledger, silent), /broken\.db\.secret contains no secret/);
  writeFileSync(join(folder, "file"), "");
  t.throws(() => loadOrCreateSecret(join(folder, "file", "x.db"), silent), /x\.db\.secret/);
});
