import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { KeptValues } from "../../src/store/kept-values.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { openDatabase, startPostgres } from "../support/postgres.ts";

const HOUR = 3_600_000;
const server = await startPostgres(t);

testValues("SQLite", async (t) => {
  const file = `${t.testdir()}/gateway.db`;
  const databases = [new SqliteDatabase(file), new SqliteDatabase(file)] as const;
  t.teardown(() => {
    for (const database of databases) database.close();
  });
  return [new KeptValues(databases[0]), new KeptValues(databases[1])];
});
if (server)
  testValues("PostgreSQL", async (t) => {
    const url = await server.database();
    return [new KeptValues(await openDatabase(t, url, 2)), new KeptValues(await openDatabase(t, url, 2))];
  });

/** @param made an empty store, as two processes see it */
function testValues(where: string, made: (t: Test) => Promise<[KeptValues, KeptValues]>): void {
  t.test(`${where}: what one gateway keeps another finds, to the byte, until its time is over`, async (t) => {
    const [one, other] = await made(t);
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const terms = { milliseconds: HOUR, bytes: 10_000 };
    await one.set("cache", "a'; --\0ü", bytes, terms);
    await one.set("cache", "empty", Buffer.alloc(0), terms);
    t.same(await other.get("cache", "a'; --\0ü"), bytes);
    t.same(await other.get("cache", "empty"), Buffer.alloc(0));
    t.equal(await other.get("other", "empty"), undefined, "its own values are separate");
    t.equal(await other.get("cache", "nobody's"), undefined);
    await other.set("cache", "empty", Buffer.from("now"), terms);
    t.equal(String(await one.get("cache", "empty")), "now");
    await one.set("cache", "short", Buffer.from("x"), { ...terms, milliseconds: 20 });
    await sleep(30);
    t.equal(await one.get("cache", "short"), undefined);
  });

  t.test(`${where}: the oldest go where there is no room, of this space only`, async (t) => {
    const [one, other] = await made(t);
    const terms = { milliseconds: HOUR, bytes: 1000 };
    await one.set("others", "a", Buffer.alloc(900), terms);
    for (const name of ["a", "b", "c", "d"]) {
      await one.set("cache", name, Buffer.alloc(300), terms);
      await sleep(2);
    }
    const there = async (store: KeptValues) => {
      const found = await Promise.all(["a", "b", "c", "d"].map((name) => store.get("cache", name)));
      return found.map((value) => value?.length);
    };
    t.same(await there(one), [undefined, 300, 300, 300]);
    t.same(await there(other), [undefined, 300, 300, 300]);
    t.equal((await one.get("others", "a"))?.length, 900);
    await t.rejects(one.set("cache", "e", Buffer.alloc(1001), terms), RangeError);
    t.same(await there(one), [undefined, 300, 300, 300]);
    for (let i = 0; i < 200; i++) await one.set("cache", `small ${i}`, Buffer.alloc(10), terms);
    let sum = 0;
    for (let i = 0; i < 200; i++) sum += (await one.get("cache", `small ${i}`))?.length ?? 0;
    t.ok(sum > 900 && sum <= 1070, `${sum} bytes: about as many as it may have`);
  });

  t.test(`${where}: a time and a size with fractions are kept too`, async (t) => {
    const [one, other] = await made(t);
    const terms = { milliseconds: HOUR + 0.4, bytes: 999.5 };
    for (const name of ["a", "b"]) {
      await one.set("cache", name, Buffer.alloc(600), terms);
      await sleep(2);
    }
    t.equal((await other.get("cache", "b"))?.length, 600);
    t.equal(await other.get("cache", "a"), undefined, "there is no room for both");
  });
}

t.test("a store that does not respond is reported", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const values = new KeptValues(database);
  database.close();
  await t.rejects(values.get("a", "b"));
  await t.rejects(values.set("a", "b", Buffer.alloc(1), { milliseconds: 1, bytes: 1 }));
});

/** Values that are not kept; how many were written is noted when what is too much is looked for. */
function counted() {
  const counts = { written: 0 };
  const looks: string[] = [];
  const query = async (text: string, space: unknown) => {
    if (text.startsWith("insert")) counts.written++;
    else if (text.includes("sum(size)")) looks.push(`${space} after ${counts.written}`);
    return [];
  };
  return { values: new KeptValues({ query }), counts, looks };
}

t.test("expired values are searched for at first, and then each time that a sixteenth more was written", async (t) => {
  const { values, looks } = counted();
  const terms = { milliseconds: 1, bytes: 160 };
  for (let i = 0; i < 20; i++) await values.set("a", "name", Buffer.alloc(2), terms);
  t.same(looks, ["a after 1", "a after 7", "a after 13", "a after 19"]);
  await values.set("b", "name", Buffer.alloc(2), terms);
  t.equal(looks.at(-1), "b after 21", "each space by itself");
});

t.test("a value above the size limit is not stored", async (t) => {
  const { values, counts } = counted();
  await t.rejects(values.set("a", "name", Buffer.alloc(11), { milliseconds: 1, bytes: 10 }), RangeError);
  t.equal(counts.written, 0);
});
