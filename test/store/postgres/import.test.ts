import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import t, { type Test } from "tap";
import { runKeys as keys } from "../../../src/cli/keys.ts";
import { runUsage as usage } from "../../../src/cli/usage.ts";
import type { Terminal } from "../../../src/cli/verb.ts";
import { newId } from "../../../src/core/id.ts";
import { journalFolder } from "../../../src/store/journal/files.ts";
import { Journal } from "../../../src/store/journal/journal.ts";
import { entryToRow } from "../../../src/store/ledger-row.ts";
import { connectStores, importStore, openStores, type Stores } from "../../../src/store/open.ts";
import { PostgresMaintenance } from "../../../src/store/postgres/maintenance.ts";
import { folderFor } from "../../support/folder.ts";
import { entry } from "../../support/ledger-contract.ts";
import { placeOf, startPostgres } from "../../support/postgres.ts";
import { captured } from "../../support/terminal.ts";

const HOUR = 3_600_000;
const START = Date.UTC(2026, 9, 29);
const ROWS = 2_300;
const IDS = Array.from({ length: ROWS }, (_, i) => newId(START + i * HOUR));
const idOf = (row: number): string => IDS[row] as string;
const [LATER, JOURNALED, NEW] = [newId(START), newId(START), newId(START)];
const PRICE = { version: "0123456789ab", price: { input: 1, output: 2 }, source: "gateway.yaml" };
const AUDIT = { who: "cli:op", address: "here", action: "keys.create", subject: "a\0b", detail: { group: "acme" } };
const author = { who: "cli:op", address: "here" };
const server = await startPostgres(t);

/** A SQLite store in which everything has been used, with a row that is in a journal only; and a key that works. */
async function usedStore(t: Test) {
  const file = join(folderFor(t), "gateway.db");
  const stores = openStores(file, [], () => {});
  const { key, record } = await stores.keys.create({
    ...{ name: "app", group: "acme/x", owner: "ann", tags: { team: "a" }, models: ["fast"], paths: ["/v1/*"] },
    limits: { rpm: 5, budgets: [{ nano: 7e9, per: "day", soft: false }] },
  });
  for (const name of ["gone", "off", "turned"]) await stores.keys.create({ name });
  await stores.keys.revoke("gone");
  await stores.keys.disable("off");
  await stores.keys.disableGroup("away");
  await stores.keys.rotate("turned", HOUR);
  for (let i = 0; i < ROWS; i++) {
    const held = i % 3 === 0 ? { key: record.id, group: "acme/x", tags: { team: "ü" } } : { key: "k2" };
    stores.ledger.append(entry({ id: idOf(i), time: START + i * HOUR, cost: i, model: `m${i % 7}`, ...held }));
  }
  const { cost: _, ...unpriced } = entry({ id: LATER, time: START, once: "answer", outcome: "aborted", status: 499 });
  stores.ledger.append(unpriced);
  stores.owners.add([{ id: "file-1", provider: "p", key: record.id, group: "acme/x" }]);
  await stores.prices.keep([PRICE]);
  await stores.audit.add({ ...AUDIT, time: START });
  await stores.keptValues.set("cache", "a", Buffer.from([0, 255, 7]), { milliseconds: HOUR, bytes: 1000 });
  await stores.revokedSessions.add("session", Date.now() + HOUR);
  const secret = await stores.secret();
  await stores.close();
  const journal = new Journal(journalFolder(file), () => {});
  journal.end(JOURNALED, entryToRow(entry({ id: JOURNALED, time: START })));
  journal.close();
  return { file, key, secret };
}

/** What a user sees of a store. */
async function seen(stores: Stores) {
  const verb = async (run: (io: Terminal) => Promise<number>) => {
    const { code, out, err } = await captured(run);
    t.same([code, err], [0, ""]);
    return out;
  };
  const config = () => ({ models: [], limits: {}, timezone: "UTC", unenforceableReason: async () => undefined });
  const sums = (by: string) => verb((io) => usage(["--by", by, "--json"], io, stores, () => "UTC"));
  return {
    keys: await verb((io) => keys(["list", "--json"], io, stores, config)),
    records: (await stores.keys.list()).map(({ hash, limits }) => ({ hash, limits })),
    sums: await Promise.all(["key", "group", "tag", "day,model", "target"].map(sums)),
    row: await stores.ledger.search({ id: idOf(1200), limit: 1 }),
    later: await stores.ledger.search({ id: LATER, limit: 1 }),
    journaled: await stores.ledger.search({ id: JOURNALED, limit: 1 }),
    object: await stores.owners.find("file-1"),
    price: await stores.prices.find(PRICE.version),
    kept: await stores.keptValues.get("cache", "a"),
    session: await stores.revokedSessions.has("session"),
  };
}

if (server) {
  const place = async (t: Test) => {
    const url = await server.database();
    return { url, ledger: url, postgres: { ...placeOf(url), journal: folderFor(t) } };
  };

  t.test("a SQLite store is copied completely: both sides answer the same", async (t) => {
    const { file, key, secret } = await usedStore(t);
    const at = await place(t);
    const told: string[] = [];
    const { rows, ...rest } = await importStore(at, file, { author, progress: (text) => told.push(text) });
    t.same(rest, { secret: true });
    t.match(rows, {
      key: 4,
      key_group: 1,
      usage: ROWS + 2,
      object: 1,
      price: 1,
      audit: 1,
      kept_value: 1,
      signed_out: 1,
      journal: 2,
      usage_once: 1,
    });
    t.ok(told.includes("usage: 2,302 rows"), told.join("\n"));
    const sqlite = openStores(file, [], () => {});
    const before = await seen(sqlite);
    const trail = await sqlite.audit.list(10);
    await sqlite.close();
    const stores = await connectStores(at, [], (message) => t.fail(message));
    t.teardown(() => stores.close());
    t.same(await seen(stores), before);
    t.same([...(await stores.keys.listDisabledGroups()).keys()], ["away"]);
    t.match(before.row, [{ cost: 1200, key: (await stores.keys.find(key))?.id, group: "acme/x" }]);
    t.match(before.journaled, [{ id: JOURNALED }]);
    t.same(await stores.secret(), secret);
    const [imported, ...earlier] = await stores.audit.list(10);
    t.match(imported, { ...author, action: "store.import", detail: { file } });
    t.same(
      earlier,
      trail.map((each) => ({ ...each, subject: "a\ufffdb" })),
    );
    const care = await PostgresMaintenance.open(at.postgres);
    t.teardown(() => care.close());
    t.same(await care.verify(() => {}), []);
    // What is written from now on gets numbers of its own.
    await stores.keys.create({ name: "new" });
    stores.ledger.append(entry({ id: NEW, key: "new", group: "new", time: START, once: "answer" }));
    t.match(await stores.ledger.search({ id: NEW, limit: 1 }), [{ key: "new", group: "new", cost: 0 }]);
  });

  t.test("a database that has been used accepts no import; one where a gateway has only started does", async (t) => {
    const { file, secret } = await usedStore(t);
    const at = await place(t);
    const started = await connectStores(at, [], () => {});
    await started.secret();
    await started.audit.add({ ...AUDIT, action: "start", time: START + 1 });
    const { record } = await started.keys.create({ name: "own" });
    const again = () => importStore(at, file, { author, progress: () => {} });
    await t.rejects(again(), { message: /in use: it has rows in key, .*drop schema model_gateway cascade/ });
    t.match(await started.keys.list(), [{ id: record.id }]);
    await started.close();
    await server.ask(at.url, "delete from key");
    t.match(await again(), { secret: true });
    const stores = await connectStores(at, [], () => {});
    t.teardown(() => stores.close());
    t.same(await stores.secret(), secret);
    t.match(await stores.audit.list(10), [{ action: "store.import" }, { action: "start" }, { action: "keys.create" }]);
  });

  t.test("an import that fails leaves the database empty, and can be repeated", async (t) => {
    const { file } = await usedStore(t);
    const at = await place(t);
    const change = (text: string) => {
      const database = new DatabaseSync(file);
      database.exec(text);
      database.close();
    };
    const again = () => importStore(at, file, { author, progress: () => {} });
    change(`update usage set time = ${Date.UTC(9999, 5)} where id = '${idOf(9)}'`);
    await t.rejects(again(), { message: /is no time of a request/ });
    t.same(await server.ask(at.url, "select 1 from key union all select 1 from usage_hour"), []);
    change(`update usage set time = ${START} where id = '${idOf(9)}'`);
    t.match((await again()).rows, { key: 4, usage: ROWS + 2 });
  });

  t.test("a store that is in use, or does not exist, is not copied", async (t) => {
    const { file } = await usedStore(t);
    const at = await place(t);
    const stores = openStores(file, [], () => {});
    t.teardown(() => stores.close());
    const from = (file: string) => importStore(at, file, { author, progress: () => {} });
    await t.rejects(from(file), { message: /has the store open: stop it first/ });
    await t.rejects(from(`${file}x`), { message: /^There is no / });
    t.notOk(existsSync(`${file}x`));
    await t.rejects(importStore({ ledger: file }, file, { author, progress: () => {} }), { message: /store restore/ });
  });
}
