import { join } from "node:path";
import t from "tap";
import { MAX_ROWS, spend } from "../../src/admin/spend.ts";
import { openStores } from "../../src/store/open.ts";
import { folderFor } from "../support/folder.ts";
import { plainEntry } from "../support/plain-entry.ts";

t.test("days are UTC's, or those of the file's timezone", async (t) => {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const last = Date.UTC(2026, 10, 20, 12);
  stores.ledger.append(plainEntry(Date.UTC(2026, 10, 19, 22), { cost: 1 }));
  // In Berlin that is the 20th.
  stores.ledger.append(plainEntry(Date.UTC(2026, 10, 19, 23, 30), { cost: 2 }));
  stores.ledger.append(plainEntry(last, { cost: 4 }));
  const ask = async (more: string, since = Date.UTC(2026, 10, 19)) => {
    const query = new URLSearchParams(`since=${since}&until=${last + 1}${more}`);
    const subject = { stores, config: { timezone: "Europe/Berlin" } } as unknown as Parameters<typeof spend>[0];
    const { body } = await spend(subject, { query } as unknown as Parameters<typeof spend>[1]);
    return body as { rows: { group: string[]; cost: number }[]; days?: string[]; zone?: string };
  };
  const told = ({ rows }: Awaited<ReturnType<typeof ask>>) => rows.map(({ group, cost }) => [...group, cost]);
  t.same(told(await ask("&by=day,model")), [
    ["2026-11-19", "m", 3],
    ["2026-11-20", "m", 4],
  ]);
  const local = await ask("&by=day,model&days=local");
  t.same(told(local), [
    ["2026-11-19", "m", 1],
    ["2026-11-20", "m", 6],
  ]);
  t.same([local.zone, local.days], ["Europe/Berlin", ["2026-11-19", "2026-11-20"]]);
  t.same(told(await ask("&by=model,day&days=local"))[1], ["m", "2026-11-20", 6]);
  t.same(told(await ask("&by=model&back=1", Date.UTC(2026, 10, 19, 23))), [["m", 1]], "the 13 hours before");
  await t.rejects(ask("&by=model&back=2"), { message: /takes 1/ });
  await t.rejects(ask("&by=model&days=local"), { message: /goes with by=day/ });
  await t.rejects(ask("&by=day&days=utc"), { message: /takes local/ });
  await t.rejects(ask("&by=day&days=local", Date.UTC(2026, 8, 1)), { message: /40 days at most/ });
  await t.rejects(ask("&by=model&series=5", Date.UTC(2026, 8, 1)), { message: /series takes 40 days at most/ });
  for (const wrong of ["0", "21", "-1", "2.5", "many", ""])
    await t.rejects(ask(`&by=model&series=${wrong}`), { message: /series takes 1 to 20/ }, wrong);
  for (const wrong of ["by=day&series=2", "by=model,day&series=2", "by=day&days=local&series=2"])
    await t.rejects(ask(`&${wrong}`), { message: /series has the days itself/ }, wrong);
});

t.test("more rows than an answer may have are the most expensive ones, and it says so", async (t) => {
  const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const noon = Date.UTC(2026, 10, 19, 12);
  stores.ledger.append(plainEntry(noon, { model: "cheap", cost: 1 }));
  for (let n = 0; n < MAX_ROWS; n++) stores.ledger.append(plainEntry(noon + 86_400_000, { model: `m${n}`, cost: 2 }));
  const ask = async (more: string) => {
    const query = new URLSearchParams(`since=${noon}&until=${noon + 2 * 86_400_000}${more}`);
    const subject = { stores, config: { timezone: "Asia/Kolkata" } } as unknown as Parameters<typeof spend>[0];
    const { body } = await spend(subject, { query } as unknown as Parameters<typeof spend>[1]);
    return body as { rows: { group: string[] }[]; more?: boolean; series?: object[] };
  };
  for (const query of ["&by=model", "&by=model,day", "&by=model,day&days=local", "&by=model&series=2"]) {
    const { rows, more, series } = await ask(query);
    t.equal(rows.length, MAX_ROWS, query);
    t.notOk(
      rows.some(({ group }) => group[0] === "cheap"),
      "the cheapest is left out, also where its day is the first",
    );
    t.equal(more, true, query);
    if (series) t.same(series, [{ costs: [1, 2 * MAX_ROWS, 0] }], "the total of each day has all");
  }
  const { rows, more } = await ask("&by=day");
  t.same([rows.length, more], [2, undefined]);
});
