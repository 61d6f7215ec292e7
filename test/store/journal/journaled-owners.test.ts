import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { journalFile, journalFolder } from "../../../src/store/journal/files.ts";
import { JournaledLedger } from "../../../src/store/journal/journaled-ledger.ts";
import { JournaledOwners } from "../../../src/store/journal/journaled-owners.ts";
import { readJournals } from "../../../src/store/journal/lines.ts";
import type { CreatedObject } from "../../../src/store/object-rows.ts";
import type { OwnedObject } from "../../../src/store/owners.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { SqliteObjects } from "../../../src/store/sqlite/objects.ts";
import { folderFor } from "../../support/folder.ts";
import { ownersContract } from "../../support/owners-contract.ts";
import { until } from "../../support/until.ts";

const file = { id: "file-1", provider: "up", key: "one" };

/** For a caller who may use every object. */
const isAny = (found: readonly OwnedObject[]) => found.length > 0;

/** A process's view of a store. */
function open(t: Test, path = join(folderFor(t), "gateway.db")) {
  const database = new SqliteDatabase(path);
  const ledger = new JournaledLedger(path, journalFolder(path), (text) => t.comment(text));
  const owners = new JournaledOwners(new SqliteObjects(database), ledger);
  t.teardown(async () => {
    await owners.close();
    await ledger.close();
    database.close();
  });
  return { path, database, owners, ledger };
}

ownersContract(t, async (t) => {
  const { owners, path } = open(t);
  return { owners, other: open(t, path).owners };
});

t.test("an added object is found at once, and in the journal at the end of the turn", async (t) => {
  const { path, owners } = open(t);
  owners.add([file, { ...file, id: "resp_1", group: "acme", model: "m" }]);
  t.same(owners.find("file-1"), [file]);
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  const { objects } = await readJournals(journalFolder(path));
  t.match(objects, [file, { ...file, id: "resp_1", group: "acme", model: "m" }]);
  t.ok(Date.now() - (objects[0] as CreatedObject).time < 60_000);
});

// At the same time, as most of it is waiting.
t.jobs = 6;
t.test("objects of a process that has died are waited for until its journal has been read", async (t) => {
  const { path, owners, ledger } = open(t);
  mkdirSync(journalFolder(path));
  const dead = journalFile(journalFolder(path), "999999999-1-1", 1);
  writeFileSync(dead, `${JSON.stringify(["made", { ...file, time: 1 }])}\n`);
  void ledger.recovered();
  t.same(await owners.findSoon("file-1", isAny), [file]);
  t.same(await owners.findSoon("file-2", isAny), [], "a missing object is reported missing in the end");
});

t.test("the journal of a process that is only invisible from here is not waited for as if it had died", async (t) => {
  const { path, owners, ledger } = open(t);
  mkdirSync(journalFolder(path));
  const elsewhere = journalFile(journalFolder(path), "999999999-1-1", 1);
  const touch = () => writeFileSync(elsewhere, "");
  touch();
  const before = Date.now();
  t.notOk(ledger.hasDeadWriter(before - 1000));
  t.ok(ledger.hasDeadWriter(before + 1000), "it may have died");
  const timer = setInterval(touch, 100);
  t.teardown(() => clearInterval(timer));
  t.same(await owners.findSoon("file-1", isAny), []);
  t.ok(Date.now() - before < 3000, "after the time that any row may take");
});

t.test("an unknown object is not waited for where no other process can have created it", async (t) => {
  const { owners } = open(t);
  t.same(owners.findSoon("file-1", isAny), []);
});

t.test("what another key has made is waited for like what nobody has", async (t) => {
  const lookups: Record<string, number> = {};
  const find = (id: string) => {
    lookups[id] = (lookups[id] ?? 0) + 1;
    return id === "file-1" ? [file] : [];
  };
  const owners = new JournaledOwners({ find, insert: async () => {} }, new MortalJournal());
  const isMine = (found: readonly OwnedObject[]) => found.some(({ key }) => key === "two");
  const [theirs, nobodys] = await Promise.all([owners.findSoon("file-1", isMine), owners.findSoon("file-2", isMine)]);
  t.same([theirs, nobodys], [[file], []]);
  t.ok((lookups["file-1"] as number) > 1);
  t.equal(lookups["file-1"], lookups["file-2"]);
  t.same(owners.findSoon("file-1", isAny), [file], "one's own is not waited for");
});

/** A journal whose thread may have died. */
class MortalJournal {
  readonly lines: string[] = [];
  readonly hasOtherWriters = true;
  flushes = 0;
  dead = false;

  hasDeadWriter(): boolean {
    return false;
  }

  addObject({ id }: CreatedObject): void {
    this.lines.push(id);
  }

  async flush(): Promise<void> {
    this.flushes++;
    if (this.dead) throw new Error("exit code 1");
  }
}

t.test("objects not yet in the store are known, and requested again where the thread has died", async (t) => {
  const journal = new MortalJournal();
  journal.dead = true;
  const rows = { find: () => [], insert: async () => {} };
  const owners = new JournaledOwners(rows, journal);
  owners.add([file]);
  owners.add([file, { ...file, provider: "other" }]);
  t.same(journal.lines, ["file-1", "file-1"], "each once");
  await until(() => journal.flushes === 1, "the first try");
  t.equal((await owners.find("file-1")).length, 2);
  journal.dead = false;
  await until(() => journal.flushes === 2, "the second");
  await until(async () => (await owners.find("file-1")).length === 0, "memory to be free of it");
  await owners.close();
});

t.test("a store that cannot answer is reported as such", async (t) => {
  const rows = {
    find: () => {
      throw new Error("disk I/O error");
    },
    insert: async () => {},
  };
  const owners = new JournaledOwners(rows, new MortalJournal());
  t.throws(() => owners.find("file-1"), { code: "store_unavailable", status: 503, retryAfter: 5 });
});
