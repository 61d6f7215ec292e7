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
    if (series) {
      t.same(series[0], { group: [rows[0]?.group[0]], costs: [0, 2, 0] });
      t.same(series.at(-1), { costs: [1, 2 * (MAX_ROWS - series.length + 1), 0] }, "all others on each day");
    }
  }
  const { rows, more } = await ask("&by=day");
  t.same([rows.length, more], [2, undefined]);
});

t.test(
  "of many groups, the daily costs of the most expensive ones and of the others are read apart, the same",
  async (t) => {
    const stores = openStores(join(folderFor(t), "gateway.db"), [], () => {});
    t.teardown(() => stores.close());
    const from = Date.UTC(2026, 9, 1);
    const [days, models] = [40, 1300];
    const costs = new Map<string, number[]>();
    for (let n = 0; n < models; n++)
      for (const place of [n % days, (n * 7 + 3) % days]) {
        const [model, cost] = [`m${n}`, 1 + ((n * 31 + place) % 997)];
        stores.ledger.append(plainEntry(from + place * 86_400_000 + 3_600_000, { model, cost }));
        const ofModel = costs.getOrInsertComputed(model, () => Array.from({ length: days }, () => 0));
        ofModel[place] = (ofModel[place] ?? 0) + cost;
      }
    const total = (each: readonly number[]) => each.reduce((sum, cost) => sum + cost, 0);
    const ranked = [...costs].sort(([, one], [, other]) => total(other) - total(one));
    for (const timezone of ["UTC", "Europe/Berlin"]) {
      const query = new URLSearchParams(
        `since=${from}&until=${from + days * 86_400_000 - 7_200_000}&by=model&series=3`,
      );
      const subject = { stores, config: { timezone } } as unknown as Parameters<typeof spend>[0];
      const { body } = await spend(subject, { query } as unknown as Parameters<typeof spend>[1]);
      const { rows, series } = body as { rows: unknown[]; series: { group?: string[]; costs: number[] }[] };
      t.equal(rows.length, models);
      t.same(
        series.slice(0, 3).map(({ costs }) => total(costs)),
        ranked.slice(0, 3).map(([, each]) => total(each)),
      );
      for (const { group: [model = ""] = [], costs: ofModel } of series.slice(0, 3)) t.same(ofModel, costs.get(model));
      const others = Array.from({ length: days }, (_, day) => total(ranked.map(([, each]) => each[day] ?? 0)));
      for (const { costs: own } of series.slice(0, 3))
        for (const [day, cost] of own.entries()) others[day] = (others[day] ?? 0) - cost;
      t.same(series[3], { costs: others });
    }
  },
);
