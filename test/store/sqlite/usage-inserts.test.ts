import t from "tap";
import { type Cell, USAGE_COLUMNS } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { MAX_INSERT_ROWS, UsageInserts } from "../../../src/store/sqlite/usage-inserts.ts";

const COLUMNS = ["kind", "holder", ...USAGE_COLUMNS];
/** Cells that many rows share. */
const EQUAL = { kind: 7, holder: 8, cached: null, reasoning: null, detail: `{"address":"ü"}`, assumed_cost: null };
/** Each selection of these. */
const SELECTIONS = Array.from({ length: 2 ** Object.keys(EQUAL).length }, (_, some) =>
  Object.fromEntries(Object.entries(EQUAL).filter((_, at) => some & (1 << at))),
);

/** A row with different cells in each column, except for those given. */
function row(at: number, cells: Readonly<Record<string, Cell>>): Cell[] {
  const own = {
    kind: at,
    holder: at,
    id: `id${at}`,
    time: at,
    attempts: `${at}`,
    first_byte: at / 2,
    duration: at / 2,
  };
  const counts = {
    cost: at,
    tokens_in: at,
    cached: at,
    tokens_out: at,
    reasoning: at,
    detail: `{"n":${at}}`,
    assumed_cost: at,
  };
  const all: Record<string, Cell> = { ...own, ...counts, ...cells };
  return COLUMNS.map((column) => all[column] as Cell);
}

t.test("rows are stored as they are, whichever of their cells are equal", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const inserts = new UsageInserts(database);
  const select = database.prepare(`select ${COLUMNS.join(", ")} from usage order by time`);
  const stored = () => select.all().map((found) => COLUMNS.map((column) => found[column]));
  const all: Cell[][] = [];
  for (const [some, cells] of SELECTIONS.entries())
    for (const count of [1 + (some % 4), MAX_INSERT_ROWS]) {
      const rows = Array.from({ length: count }, (_, at) => row(all.length + at, cells));
      t.equal(inserts.insert(rows), rows.length);
      all.push(...rows);
    }
  t.same(stored(), all);
  const [first] = all as [Cell[]];
  t.equal(inserts.insert([first, row(100_000, {}), row(100_001, {})]), 2, "what is there already is not new");
  t.equal(stored().length, all.length + 2);
  database.close();
});

t.test("a row that the store refuses ends the transaction, and none of it is stored", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const inserts = new UsageInserts(database);
  for (const wrong of [{ cost: "much" }, { duration: null }, { kind: null }])
    t.throws(() =>
      database.transaction(() => {
        inserts.insert([row(1, {}), row(2, {})]);
        inserts.insert([row(3, {}), row(4, wrong)]);
      }),
    );
  t.same(database.prepare("select count(*) as count from usage").get(), { count: 0 });
  t.equal(
    database.transaction(() => inserts.insert([row(1, {})])),
    1,
    "the next transaction is its own",
  );
  database.close();
});

t.test("few statements are kept, whatever rows share and however many come", async (t) => {
  const database = new SqliteDatabase(":memory:");
  const prepare = database.prepare.bind(database);
  let prepared = 0;
  database.prepare = (text) => {
    prepared++;
    return prepare(text);
  };
  const inserts = new UsageInserts(database);
  let id = 0;
  for (let count = 1; count <= MAX_INSERT_ROWS; count++)
    for (const cells of SELECTIONS) inserts.insert(Array.from({ length: count }, () => row(id++, cells)));
  t.ok(prepared < 100, `${prepared} statements`);
  database.close();
});
