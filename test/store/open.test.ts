import { chmodSync, existsSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { openMaintenance, openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("keys and ledger share one file, and closing writes what waits", async (t) => {
  const path = join(t.testdir(), "data", "gateway.db");
  const warnings: string[] = [];
  const first = openStores(path, [{ name: "ci", key: "a-key-of-the-operators-own-choice" }], (text) =>
    warnings.push(text),
  );
  const { key } = await first.keys.create({ name: "made" });
  first.ledger.append(plainEntry(1, { id: "1", key: "ci" }));
  await first.close();
  t.throws(() => first.keys.find(key), { code: "store_unavailable", status: 503 }, "queries fail");

  const second = openStores(path, [], (text) => warnings.push(text));
  t.match(second.keys.find(key), { name: "made" });
  t.match(await second.ledger.recent(10), [{ id: "1", key: "ci" }]);
  await second.close();
  t.same(warnings, []);
});

t.test("written pages are checkpointed into the file by the ledger's thread, not by those of requests", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const { keys, close, ledger } = openStores(path, [], (text) => t.fail(text));
  const pages = () => statSync(`${path}-wal`).size / 4096;
  for (let i = 0; i < 200; i++) await keys.create({ name: `key${i}` });
  t.ok(pages() > 300, `${pages()} pages wait`);
  ledger.append(plainEntry(1, { id: "1", key: "ci" }));
  await ledger.flush();
  const before = pages();
  for (let i = 0; i < 5; i++) await keys.create({ name: `more${i}` });
  t.equal(pages(), before, "all was moved with the row, and SQLite's journal begins from its front");
  await close();
});

t.test("a file moved before the first row of a run is not created anew: both it and the row are kept", async (t) => {
  const path = join(folderFor(t), "gateway.db");
  const append = (stores: ReturnType<typeof openStores>, id: string) => stores.ledger.append(plainEntry(1, { id }));
  const before = openStores(path, [], (text) => t.fail(text));
  append(before, "1");
  await before.close();
  const warnings: string[] = [];
  const during = openStores(path, [], (text) => warnings.push(text));
  renameSync(path, `${path}.away`);
  append(during, "2");
  await t.rejects(during.ledger.flush());
  t.notOk(existsSync(path), "no new file is created in its place");
  await during.close();
  t.match(warnings, [/removed, moved or replaced/]);
  const journal = `${path}.journal`;
  const lines = readdirSync(journal).map((name) => readFileSync(join(journal, name), "utf8"));
  t.match(lines.join(""), /^\["ended",\[.*\["2",/, "and the row waits for the next process");
  renameSync(`${path}.away`, path);
  const after = openStores(path, [], (text) => t.fail(text));
  t.match(await after.ledger.recent(10), [{ id: "1" }]);
  await after.close();
});

t.test("a store that others can read is reported", { skip: process.platform === "win32" }, async (t) => {
  const path = join(t.testdir(), "gateway.db");
  await openStores(path, [], () => {}).close();
  chmodSync(path, 0o644);
  const warnings: string[] = [];
  await openStores(path, [], (text) => warnings.push(text)).close();
  t.same(warnings, [`Other users of this machine can read the store ${path}: chmod 600 ${path}`]);
});

t.test("there is no maintenance in memory", async (t) => {
  t.throws(() => openMaintenance(":memory:"), { message: /in memory/ });
  const care = openMaintenance(join(t.testdir(), "gateway.db"));
  t.equal(care.migrated.from, 0);
  care.close();
});

t.test("stores that are closed twice, as after a crash during a stop, are closed once", async (t) => {
  const warnings: string[] = [];
  const { close, ledger } = openStores(join(t.testdir(), "gateway.db"), [], (text) => warnings.push(text));
  ledger.append(plainEntry(Date.now()));
  ledger.persist();
  await Promise.all([close(), close()]);
  t.same(warnings, []);
});
