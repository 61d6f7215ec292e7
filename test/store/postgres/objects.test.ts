import { join } from "node:path";
import t, { type Test } from "tap";
import { JournaledLedger } from "../../../src/store/journal/journaled-ledger.ts";
import { JournaledOwners } from "../../../src/store/journal/journaled-owners.ts";
import type { OwnedObject } from "../../../src/store/owners.ts";
import type { PostgresQuery } from "../../../src/store/postgres/database.ts";
import { openPostgres } from "../../../src/store/postgres/migrations.ts";
import { PostgresObjects } from "../../../src/store/postgres/objects.ts";
import { folderFor } from "../../support/folder.ts";
import { ownersContract } from "../../support/owners-contract.ts";
import { openDatabase, type PostgresServer, placeOf, startPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";

/** For a caller who may use every object. */
const isAny = (found: readonly OwnedObject[]) => found.length > 0;

const server = await startPostgres(t);

async function open(t: Test, { database: made }: PostgresServer) {
  const place = placeOf(await made());
  const { database } = await openPostgres(place, 3);
  const folder = join(folderFor(t), "journal");
  const view = () => {
    const ledger = new JournaledLedger(place, folder, (text) => t.comment(text));
    const owners = new JournaledOwners(new PostgresObjects(database), ledger);
    t.teardown(async () => {
      await owners.close();
      await ledger.close();
    });
    return owners;
  };
  const both = { owners: view(), other: view() };
  t.teardown(() => database.close());
  return both;
}

if (server) {
  ownersContract(t, (t) => open(t, server));

  t.test("while the database is down owners are unknown; objects created meanwhile are written later", async (t) => {
    const own = await startPostgres(t);
    if (!own) return;
    const { owners, other } = await open(t, own);
    await own.kill();
    const file = { id: "file-1", provider: "up", key: "one" };
    owners.add([file]);
    await t.rejects(Promise.resolve(owners.find("file-1")), {
      code: "store_unavailable",
      status: 503,
      retryAfter: 5,
    });
    await own.start();
    const found = async () => (await Promise.resolve(other.find("file-1")).catch(() => [])).length === 1;
    await until(found, "the other's view");
  });

  t.test("an object that another gateway has just added is waited for, where a miss would be a refusal", async (t) => {
    const { owners, other } = await open(t, server);
    const file = { id: "file-1", provider: "up", key: "one" };
    const looked = other.findSoon("file-1", isAny);
    owners.add([file]);
    t.same(await looked, [file]);
    t.same(await other.findSoon("file-2", isAny), [], "a missing object is reported missing in the end");
  });

  t.test("a request that names many unknown objects causes a handful of queries, one at a time", async (t) => {
    const database = await openDatabase(t, await server.database(), 3);
    let [asked, running, most] = [0, 0, 0];
    const query: PostgresQuery = async (text, ...values) => {
      asked++;
      most = Math.max(most, ++running);
      return database.query(text, ...values).finally(() => running--);
    };
    const journal = { addObject() {}, flush: async () => {}, hasOtherWriters: true, hasDeadWriter: () => false };
    const rows = new PostgresObjects({ query });
    const file = { id: "file-1", provider: "up", key: "one" };
    await rows.insert([{ ...file, time: 1 }]);
    asked = 0;
    const owners = new JournaledOwners(rows, journal);
    const ids = Array.from({ length: 990 }, (_, i) => `file-nobody-${i}`);
    const found = await Promise.all([...ids, "file-1", "file-1"].map((id) => owners.findSoon(id, isAny)));
    t.same(found.slice(-3), [[], [file], [file]], "each gets its own result");
    t.ok(asked <= 6, `${asked} questions`);
    t.equal(most, 1, "the other connections are for keys");
  });

  t.test("a query that fails fails for all that wait for it, and the next is sent", async (t) => {
    let fails = true;
    const rows = new PostgresObjects({
      query: async () => {
        if (fails) throw new Error("away");
        return [];
      },
    });
    const both = await Promise.allSettled([rows.find("file-1"), rows.find("file-2")]);
    t.match(both, [{ reason: { message: "away" } }, { reason: { message: "away" } }]);
    fails = false;
    t.same(await rows.find("file-1"), []);
  });
}
