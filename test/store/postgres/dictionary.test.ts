import t, { type Test } from "tap";
import { PostgresDictionary } from "../../../src/store/postgres/dictionary.ts";
import { openDatabase, startPostgres } from "../../support/postgres.ts";

const server = await startPostgres(t);

async function open(t: Test) {
  if (!server) throw new Error("no PostgreSQL");
  const database = await openDatabase(t, await server.database(), 4);
  const kinds = () => new PostgresDictionary("usage_holder", { group_path: "text", tags: "text" }, "tags");
  return { ask: database.query, kinds };
}

if (server) {
  t.test("values that many rows share have one number, for every process", async (t) => {
    const { ask, kinds } = await open(t);
    const groups = Array.from({ length: 200 }, (_, i) => [`g${i % 100}`, ""]);
    const found = await Promise.all([1, 2, 3, 4].map(() => kinds().numbersFor(ask, groups)));
    for (const numbers of found) t.same(numbers, found[0]);
    t.equal(new Set(found[0]).size, 100);
    t.same(await kinds().numbersFor(ask, [["", ""]]), [0], "the default entries");
    t.equal((await ask("select * from usage_holder")).length, 101);
  });

  t.test("a known number is not queried again", async (t) => {
    const { ask, kinds } = await open(t);
    const own = kinds();
    const numbers = await own.numbersFor(ask, [["a", ""]]);
    const never = () => Promise.reject(new Error("asked"));
    t.same(
      await own.numbersFor(never, [
        ["a", ""],
        ["a", ""],
      ]),
      [...numbers, ...numbers],
    );
    await t.rejects(own.numbersFor(never, [["b", ""]]), { message: "asked" });
  });

  t.test("a new value takes one number, beside however many known ones it comes", async (t) => {
    const { ask, kinds } = await open(t);
    const groups = Array.from({ length: 100 }, (_, i) => [`g${i}`, ""]);
    await kinds().numbersFor(ask, groups);
    for (const name of ["a", "b", "c"]) await kinds().numbersFor(ask, [...groups, [name, ""]]);
    t.same(await kinds().numbersFor(ask, [["c", ""]]), [103]);
  });

  t.test("an incomplete value is refused", async (t) => {
    const { ask, kinds } = await open(t);
    await t.rejects(kinds().numbersFor(ask, [[null, ""]]), { code: "23502" });
  });
}
