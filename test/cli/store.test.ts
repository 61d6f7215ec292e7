import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/store.ts";
import { runStore } from "../../src/cli/store.ts";
import type { Terminal } from "../../src/cli/verb.ts";
import type { NumberedAuditEntry } from "../../src/store/audit.ts";
import { importStore, openMaintenance, openStores, restoreStore } from "../../src/store/open.ts";
import type { StoreImport } from "../../src/store/postgres/import.ts";
import { loadOrCreateSecret, missingSecretWarning } from "../../src/store/secret.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { plainEntry } from "../support/plain-entry.ts";
import { captured } from "../support/terminal.ts";
import { leaveWaitingRows } from "../support/waiting-rows.ts";

const DAY = 86_400_000;

/** A command line over a store in a new file, with rows of the last three days. */
async function terminal(t: Test) {
  const folder = t.testdir();
  const path = join(folder, "gateway.db");
  const stores = openStores(path, [], () => {});
  for (let i = 0; i < 30; i++) {
    const time = Math.floor(Date.now() / DAY) * DAY - (i % 3) * DAY;
    stores.ledger.append(plainEntry(time, { cost: 5 }));
  }
  await stores.close();
  let zone = "UTC";
  const store = (...args: string[]) => {
    const run = (io: Terminal) =>
      runStore(args, io, {
        openStore: () => openMaintenance(path),
        restore: (file, terms) => restoreStore({ ledger: path }, file, terms),
        importFrom: (file, terms) => importStore({ ledger: path }, file, terms),
        missingSecretWarning: () => missingSecretWarning(path),
        zone: () => zone,
      });
    return captured(run, { folder }, USAGE, args);
  };
  const inZone = (name: string) => {
    zone = name;
  };
  return { folder, path, store, inZone };
}

t.test("store backup writes a copy that is a store, and overwrites nothing", async (t) => {
  const { folder, store } = await terminal(t);
  t.match(await store("backup", "copy.db"), { code: 0, out: /copy\.db: 30 rows, [\d,]+ bytes, verified\./ });
  const copy = openStores(join(folder, "copy.db"), [], () => {});
  t.match(await copy.ledger.sums({ by: [] }), [{ requests: 30 }]);
  await copy.close();
  t.match(await store("backup", "copy.db"), { code: 1, out: "", err: /exists: a backup overwrites no file/ });
  t.match(JSON.parse((await store("backup", "other.db", "--json")).out), { file: join(folder, "other.db"), rows: 30 });
});

t.test("store backup reports requests that wait for the store", async (t) => {
  const { path, store } = await terminal(t);
  const file = leaveWaitingRows(path);
  const { code, out, err } = await store("backup", "copy.db", "--json");
  t.equal(code, 0);
  t.match(err, /^Requests wait until the store can be written\. Those in the journal are included; /);
  t.match(JSON.parse(out), { rows: 30, behind: true });
  rmSync(file);
  const whole = await store("backup", "whole.db", "--json");
  t.notMatch(whole.err, "Requests wait");
  t.notHas(JSON.parse(whole.out), { behind: true });
});

t.test("store backup reports that it contains no secret, and what that means", async (t) => {
  const { path, store } = await terminal(t);
  const { code, out, err } = await store("backup", "copy.db", "--json");
  t.equal(code, 0);
  t.match(err, /backup: warning: the copy has no secret: it is missing; .*envelopes .* are refused/);
  t.match(JSON.parse(out), { rows: 30, warning: /^the copy has no secret/ });
  loadOrCreateSecret(path, () => {});
  const whole = await store("backup", "whole.db", "--json");
  t.notMatch(whole.err, /warning/);
  t.notOk("warning" in JSON.parse(whole.out));
});

t.test("store restore reports that a backup contains no secret, and what that means", async (t) => {
  const { store } = await terminal(t);
  await store("backup", "copy.db");
  const { code, out, err } = await store("restore", "copy.db", "--json");
  t.equal(code, 0);
  t.match(err, /restore: warning: the backup has no secret: it is missing; .*Restore the old file/);
  t.match(JSON.parse(out), { rows: 30, warning: /^the backup has no secret/ });
});

t.test("store restore replaces the store by a backup, and prints where the old one is", async (t) => {
  const { path, store } = await terminal(t);
  await store("backup", "copy.db");
  const stores = openStores(path, [], () => {});
  t.match(await store("restore", "copy.db"), { code: 1, out: "", err: /has the store open: stop it first/ });
  await stores.close();
  const { code, out } = await store("restore", "copy.db");
  t.match({ code, out }, { code: 0, out: /^Restored .*copy\.db: 30 rows, verified\. The old store is .*until-/ });
  const [, kept = ""] = /old store is (\S+)\.$/.exec(out) ?? [];
  t.ok(existsSync(kept));
  t.match(JSON.parse((await store("restore", "copy.db", "--force", "--json")).out), { rows: 30, kept: /until-/ });
  t.match(await store("restore"), { code: 2, err: /^store restore takes one file\./ });
  t.match(await store("verify", "--force"), { code: 2, err: /^--force is an option of store restore only\./ });
});

t.test("store verify prints what is wrong", async (t) => {
  const { path, store } = await terminal(t);
  t.match(await store("verify"), { code: 0, out: "The store has no errors.", err: /checking/ });
  const database = new SqliteDatabase(path);
  database.prepare("update usage_hour set cost = cost + 1 where hour = (select max(hour) from usage_hour)").run();
  database.close();
  t.match(await store("verify"), { code: 1, out: "", err: /the sums of 20.*key k, model m, target p:m are not those/ });
  t.match(JSON.parse((await store("verify", "--json")).out), { ok: false, problems: [/sums/, /day/] });
});

t.test("store prune removes rows and keeps sums", async (t) => {
  const { path, store } = await terminal(t);
  const day = new Date(Date.now() - DAY).toISOString().slice(0, 10);
  t.match(await store("prune", "--before", day), {
    code: 0,
    out: `10 rows from before ${day} deleted; their hourly sums`,
  });
  const stores = openStores(path, [], () => {});
  t.match(await stores.ledger.sums({ by: [] }), [{ requests: 30, cost: 150 }]);
  t.equal((await stores.ledger.recent(100)).length, 20);
  await stores.close();
  t.match(await store("verify"), { code: 0 });
  t.match(JSON.parse((await store("prune", "--before", day, "--json")).out), { removed: 0, before: day });
});

t.test("store audit prints who changed what, newest first", async (t) => {
  const { path, store } = await terminal(t);
  t.match(await store("audit"), { code: 0, out: "The audit trail has no entries since then." });
  const stores = openStores(path, [], () => {});
  const by = { who: "cli:ada", address: "host-1" };
  const hour = 3_600_000;
  for (let i = 1500; i > 0; i--)
    await stores.audit.add({ ...by, time: Date.now() - i * hour, action: "keys.set", subject: `k${i}`, detail: { i } });
  const budgets = (nano: number) => ({ limits: { budgets: [{ nano, per: "day", soft: false }] } });
  const edited = {
    action: "keys.edit",
    subject: "k",
    detail: { ...budgets(2e9), was: { ...budgets(1e9), group: null } },
  };
  await stores.audit.add({ ...by, time: Date.now(), ...edited });
  await stores.audit.add({ ...by, time: Date.now(), action: "start", subject: "a\u001b[2Jb", detail: {} });
  await stores.close();
  const all = (await store("audit")).out.split("\n");
  t.match(all[0], /^TIME +WHO +FROM +ACTION +SUBJECT +DETAIL$/);
  t.match(all[1], /Z {2}cli:ada {2}host-1 {2}start +a\?\[2Jb$/);
  t.match(
    all[2],
    /k +\{"limits":\{"budget":\["\$2\/day"\]\},"was":\{"group":null,"limits":\{"budget":\["\$1\/day"\]\}\}\}$/,
  );
  t.match(all[3], /keys\.set +k1 +\{"i":1\}$/);
  t.equal(all.length, 101);
  const late = JSON.parse((await store("audit", "--since", "150m", "--json")).out) as NumberedAuditEntry[];
  t.match(late, [{ action: "start" }, edited, { subject: "k1", detail: { i: 1 } }, { subject: "k2" }]);
  t.equal(late.length, 4);
  t.equal(JSON.parse((await store("audit", "--since", "1400h", "--json")).out).length, 1401, "over several pages");
});

t.test("store prune uses the days of the file's timezone, in whole hours", async (t) => {
  for (const [zone, offset] of [
    ["Asia/Tokyo", 9],
    ["Asia/Kolkata", 5.5],
  ] as const) {
    const { path, store, inZone } = await terminal(t);
    inZone(zone);
    const day = new Date(Date.now() - 3 * DAY).toISOString().slice(0, 10);
    const start = Date.parse(day) - offset * 3_600_000;
    const first = Math.floor(start / 3_600_000) * 3_600_000;
    const stores = openStores(path, [], () => {});
    for (const time of [first - 1, first, start]) stores.ledger.append(plainEntry(time));
    await stores.close();
    const told = JSON.parse((await store("prune", "--before", day, "--json")).out);
    t.same(told, { removed: 1, before: day }, zone);
    t.match(await store("verify"), { code: 0 });
  }
});

t.test("store migrate prints how old a store was", async (t) => {
  const { store } = await terminal(t);
  t.match(await store("migrate"), { code: 0, out: /^The store is up to date \(version \d+\)\.$/ });
  const { from, to } = JSON.parse((await store("migrate", "--json")).out);
  t.equal(from, to);
});

const TODAY = new Date().toISOString().slice(0, 10);

t.test("an invalid command line exits with 2, and does nothing", async (t) => {
  const { store } = await terminal(t);
  const cases: [string[], RegExp][] = [
    [[], /needs a command/],
    [["eat"], /no command "eat"; it has backup, /],
    [["bakcup", "x"], /no command "bakcup", did you mean "backup"\?/],
    [["backup", ""], /takes one file/],
    [["backup"], /takes one file/],
    [["backup", "a", "b"], /takes one file/],
    [["verify", "x"], /takes no names/],
    [["prune"], /needs --before/],
    [["prune", "--before", "soon"], /not a time/],
    [["prune", "--before", TODAY], /last 24 hours/],
    [["verify", "--before", "2w"], /an option of store prune only/],
    [["verify", "--what"], /Unknown option/],
    [["verify", "--since", "1h"], /an option of store audit only/],
    [["audit", "--since", "soon"], /--since: "soon" is not a time/],
    [["audit", "x"], /takes no names/],
  ];
  for (const [args, why] of cases) {
    const { code, err } = await store(...args);
    t.equal(code, 2, args.join(" "));
    t.match(err, why);
    t.match(err, /\nusage: npm start -- store \S+ .*\nsee: npm start -- store --help$/s);
  }
  t.match(help, /^store backup/);
  t.match(USAGE, /^usage: npm start -- store/);
});

t.test(
  "store import prints what was copied, and that a secret was missing; with a SQLite ledger it does nothing",
  async (t) => {
    const { folder, store } = await terminal(t);
    t.match(await store("import", "old.db"), {
      code: 1,
      out: "",
      err: /store: ledger is a SQLite file: store restore/,
    });
    t.match(await store("import"), { code: 2, err: /store import takes one file/ });
    const names = ["usage_kind", "usage_holder", "usage_hour", "usage_day", "usage_once", "usage_pruned"];
    const others = [...names, "price", "audit", "kept_value", "signed_out"].map((name) => [name, 0]);
    const rows = { ...Object.fromEntries(others), key: 2, usage: 1_500, object: 1 } as StoreImport["rows"];
    const imported = (secret: boolean, ...args: string[]) => {
      const unused = () => t.fail("not for this verb") as never;
      const run = (io: Terminal) =>
        runStore(["import", "old.db", ...args], io, {
          ...{ openStore: unused, restore: unused, missingSecretWarning: unused, zone: unused },
          async importFrom(file, { author, progress }) {
            t.match([file, author], [join(folder, "old.db"), { who: /^cli:/ }]);
            progress("usage: 1,500 rows");
            return { rows, secret };
          },
        });
      return captured(run, { folder });
    };
    t.match(await imported(true), {
      ...{
        code: 0,
        out: /old\.db: 2 keys, 1,500 requests, 1 object, with all sums/,
        err: "import: usage: 1,500 rows",
      },
    });
    t.match((await imported(false)).err, /\nimport: warning: there is no .*old\.db\.secret/);
    t.same(JSON.parse((await imported(false, "--json")).out), { file: join(folder, "old.db"), rows, secret: false });
  },
);
