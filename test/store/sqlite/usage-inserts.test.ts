import t from "tap";
import { type Cell, USAGE_COLUMNS } from "../../../src/store/ledger-row.ts";
import { SqliteDatabase } from "../../../src/store/sqlite/database.ts";
import { UsageInserts } from "../../../src/store/sqlite/usage-inserts.ts";

const COLUMNS = ["kind", "holder", ...USAGE_COLUMNS];

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
  const equal = { kind: 7, holder: 8, cached: null, reasoning: null, detail: `{"address":"ü"}`, assumed_cost: null };
  const names = Object.keys(equal) as (keyof typeof equal)[];
  const all: Cell[][] = [];
  for (let some = 0; some < 2 ** names.length; some++) {
    const cells = Object.fromEntries(names.filter((_, at) => some & (1 << at)).map((name) => [name, equal[name]]));
    const rows = Array.from({ length: 1 + (some % 4) }, (_, at) => row(10 * some + at, cells));
    t.equal(inserts.insert(rows), rows.length);
    all.push(...rows);
  }
  t.same(stored(), all);
  const [first] = all as [Cell[]];
  t.equal(inserts.insert([first, row(10_000, {}), row(10_001, {})]), 2, "what is there already is not new");
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
