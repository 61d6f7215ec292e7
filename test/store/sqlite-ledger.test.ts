import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { newId } from "../../src/core/id.ts";
import type { LedgerEntry, LedgerGroup, LedgerSum } from "../../src/store/ledger.ts";
import { Database } from "../../src/store/sqlite.ts";
import { SqliteLedger } from "../../src/store/sqlite-ledger.ts";

const HOUR = 3_600_000;
/** Rows of the test with many. */
const MANY = Number(process.env["GATEWAY_TEST_LEDGER_ROWS"] ?? 10_000);
const DAY = Date.UTC(2026, 10, 20);

function open(t: Test) {
  const path = join(t.testdir(), "gateway.db");
  const database = new Database(path);
  const warnings: string[] = [];
  const ledger = new SqliteLedger(database, (text) => warnings.push(text));
  t.teardown(async () => {
    await ledger.close();
    database.close();
  });
  return { path, database, ledger, warnings };
}

function entry(change: Partial<LedgerEntry> = {}): LedgerEntry {
  return {
    id: newId(DAY),
    time: DAY,
    key: "k1",
    model: "fast",
    target: "p:m",
    protocol: "wire",
    operation: "generate",
    status: 200,
    outcome: "completed",
    streaming: false,
    attempts: [{ target: "p:m", status: 200, startedAt: 0.5 }],
    duration: 100,
    usage: { in: { total: 100, cached: 40 }, out: { total: 10, reasoning: 3 }, raw: undefined },
    source: "reported",
    cost: 1_000,
    ...change,
  };
}

const rows = (database: Database) => database.prepare("select count(*) as rows from usage").get()?.["rows"];

t.test("entries wait for each other and are on disk after flush", async (t) => {
  const { ledger, database, path } = open(t);
  const written = Array.from({ length: 450 }, (_, at) => entry({ time: DAY + at }));
  for (const one of written) ledger.append(one);
  t.equal(ledger.waiting, 450);
  t.equal(rows(database), 0, "append itself writes nothing");
  await ledger.flush();
  t.equal(ledger.waiting, 0);
  const other = new DatabaseSync(path, { readOnly: true });
  t.equal(other.prepare("select count(*) as rows from usage").get()?.["rows"], 450, "for every process to see");
  other.close();
  t.same(await ledger.recent(3), written.slice(-3).reverse(), "newest first");
});

t.test("entries are written without anybody asking", async (t) => {
  const { ledger } = open(t);
  ledger.append(entry());
  while (ledger.waiting > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(ledger.dropped, 0);
});

t.test("sums ask for what waits too, and are grouped as asked", async (t) => {
  const { ledger } = open(t);
  ledger.append(entry());
  ledger.append(entry({ key: "k2", model: "smart", cost: 5_000, time: DAY + 25 * HOUR }));
  const { usage: _, cost: __, ...unknown } = entry({ source: "none", outcome: "aborted", status: 499 });
  ledger.append(unknown);
  const one: LedgerSum = {
    ...{ group: [], requests: 3, failed: 1, unsettled: 1, tokensIn: 200, cached: 80, tokensOut: 20, reasoning: 6 },
    cost: 6_000,
  };
  t.same(await ledger.sums({ by: [] }), [one], "all in one");
  const by = async (...by: LedgerGroup[]) =>
    (await ledger.sums({ by })).map(({ group, requests, cost }) => [...group, requests, cost]);
  t.same(
    await by("model"),
    [
      ["smart", 1, 5_000],
      ["fast", 2, 1_000],
    ],
    "the dearest first",
  );
  t.same(await by("target"), [["p:m", 3, 6_000]]);
  t.same(
    await by("key", "day"),
    [
      ["k1", "2026-11-20", 2, 1_000],
      ["k2", "2026-11-21", 1, 5_000],
    ],
    "days in their order",
  );
});

t.test("rows keep group and tags as they were, and sums go by them", async (t) => {
  const { ledger } = open(t);
  const search = { group: "acme/research", tags: { team: "search", env: "test" } };
  ledger.append(entry(search));
  ledger.append(entry({ ...search, time: DAY + 1, tags: { team: "ads" } }));
  ledger.append(entry({ time: DAY + HOUR }));
  const by = async (...by: LedgerGroup[]) =>
    (await ledger.sums({ by, since: DAY, until: DAY + HOUR + 1 }))
      .map(({ group, requests }) => [...group, requests])
      .sort();
  t.same(await by("group"), [
    ["", 1],
    ["acme/research", 2],
  ]);
  t.same(await by("tag"), [
    ["", 1],
    ["env=test", 1],
    ["team=ads", 1],
    ["team=search", 1],
  ]);
  t.same(await by("key", "tag", "group"), [
    ["k1", "", "", 1],
    ["k1", "env=test", "acme/research", 1],
    ["k1", "team=ads", "acme/research", 1],
    ["k1", "team=search", "acme/research", 1],
  ]);
  t.match(await ledger.recent(3), [{ time: DAY + HOUR }, { group: "acme/research", tags: { team: "ads" } }, search]);
});

t.test("all rows of a span come oldest first, page by page", async (t) => {
  const { ledger } = open(t);
  const all = Array.from({ length: 2100 }, (_, at) => entry({ id: `id-${at}`, time: DAY + (at % 3) }));
  for (const one of all) ledger.append(one);
  const ids = async (span: object) => {
    const found: string[] = [];
    for await (const { id, time } of ledger.entries(span)) found.push(`${time} ${id}`);
    return found;
  };
  const places = all.map(({ id, time }) => `${time} ${id}`).sort();
  t.same(await ids({}), places);
  t.same(
    await ids({ since: DAY + 1, until: DAY + 2 }),
    places.filter((place) => place.startsWith(`${DAY + 1} `)),
  );
});

t.test("sums over many rows are those of the rows, by all that they can go by", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const database = new Database(path);
  t.teardown(() => database.close());
  const ledger = new SqliteLedger(database);
  const [keys, models, hours] = [50, 4, 24 * 30];
  const holder = (key: number) => ({ group: `acme/team-${key % 10}`, tags: { team: `t${key % 10}`, env: "live" } });
  const holders = Array.from({ length: keys }, (_, key) => holder(key));
  for (let at = 0; at < MANY; at++) {
    const key = at % keys;
    const time = DAY + (Math.floor(at / keys) % hours) * HOUR + (at % 1000);
    const model = `m${Math.floor(at / keys / hours) % models}`;
    ledger.append(entry({ id: `${at}`, time, key: `k${key}`, model, cost: 1 + (at % 7), ...holders[key] }));
    if (at % 5000 === 4999) await ledger.flush();
  }
  await ledger.flush();
  let cost = 0;
  for (let at = 0; at < MANY; at++) cost += 1 + (at % 7);
  for (const by of [["key"], ["group"], ["model", "day"], ["tag"]] as const) {
    const took: number[] = [];
    let sums: LedgerSum[] = [];
    for (let round = 0; round < 5; round++) {
      const began = performance.now();
      sums = await ledger.sums({ by, since: DAY + 1800_000 });
      took.push(performance.now() - began);
    }
    const [all] = await ledger.sums({ by: [], since: DAY + 1800_000 });
    const twice = by[0] === "tag" ? 2 : 1;
    t.equal(
      sums.reduce((sum, one) => sum + one.requests, 0),
      twice * (all?.requests ?? 0),
      by.join(),
    );
    t.comment(
      `${MANY} rows, by ${by}: ${Math.min(...took).toFixed(1)} ms at best, ${Math.max(...took).toFixed(1)} at worst`,
    );
  }
  t.match(await ledger.sums({ by: [] }), [{ requests: MANY, cost }]);
});

t.test("nothing yet is zero, not nothing", async (t) => {
  const { ledger } = open(t);
  t.match(await ledger.sums({ by: [] }), [{ group: [], requests: 0, cost: 0, tokensIn: 0 }]);
  t.same(await ledger.sums({ by: ["model"] }), []);
  t.same(await ledger.recent(5), []);
});

t.test("sums of any span of time are those of its rows", async (t) => {
  const { ledger } = open(t);
  // A small generator with a fixed seed: the same spans and rows every time.
  let seed = 7;
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  const all = Array.from({ length: 400 }, () => entry({ time: DAY + random(80 * HOUR), cost: random(1_000_000) }));
  for (const one of all) ledger.append(one);
  const spans: { since?: number; until?: number }[] = [
    {},
    { since: DAY + HOUR },
    { until: DAY + HOUR },
    { since: DAY + 1 },
  ];
  for (let round = 0; round < 60; round++) {
    const since = DAY + random(80 * HOUR);
    spans.push({ since, until: since + random((round % 2 === 0 ? 3 : 60) * HOUR) }, { since, until: since - 1 });
  }
  for (const span of spans) {
    const expected = all.filter(({ time }) => time >= (span.since ?? 0) && time < (span.until ?? Infinity));
    const [sum] = await ledger.sums({ by: [], ...span });
    const cost = expected.reduce((sum, one) => sum + (one.cost ?? 0), 0);
    if (sum?.requests !== expected.length || sum.cost !== cost)
      t.fail("differs", { span, sum, requests: expected.length, cost });
  }
  t.ok(spans.length > 100);
});

t.test("writing an entry again changes nothing", async (t) => {
  const { ledger, database } = open(t);
  const entries = Array.from({ length: 30 }, () => entry());
  for (let round = 0; round < 3; round++) {
    for (const one of entries) ledger.append(one);
    ledger.append({ ...(entries[0] as LedgerEntry), cost: 999_999 });
    await ledger.flush();
  }
  t.equal(rows(database), 30);
  t.match(await ledger.sums({ by: [] }), [{ requests: 30, cost: 30_000 }], "not the sums either");
});

t.test("an entry that comes twice in one batch counts once, and those beside it count", async (t) => {
  const { ledger, database } = open(t);
  const twice = entry();
  for (const one of [twice, entry(), twice, entry({ model: "smart" }), { ...twice, model: "smart" }])
    ledger.append(one);
  await ledger.flush();
  t.equal(rows(database), 3);
  t.same(
    (await ledger.sums({ by: ["model"] })).map(({ group, requests }) => [...group, requests]),
    [
      ["fast", 2],
      ["smart", 1],
    ],
  );
});

t.test("sums of the hours are those of the rows, whatever was written again or by whom", async (t) => {
  const { ledger, database, path } = open(t);
  const second = new Database(path);
  const other = new SqliteLedger(second);
  const entries = Array.from({ length: 1_200 }, (_, at) =>
    entry({ model: `m${at % 7}`, key: `k${at % 3}`, time: DAY + (at % 5) * HOUR, cost: at, status: 200 + (at % 2) }),
  );
  for (const [at, one] of entries.entries()) {
    if (at % 3 < 2) ledger.append(one);
    if (at % 3 > 0) other.append(one);
  }
  await Promise.all([ledger.flush(), other.flush()]);
  await other.close();
  second.close();
  const sums = (from: string) =>
    database
      .prepare(`select key, model, sum(requests) as requests, sum(cost) as cost from (${from})
      group by key, model order by key, model`)
      .all();
  const single = "select key, model, 1 as requests, cost from usage join usage_kind on number = kind";
  t.equal(rows(database), 1_200);
  t.same(sums("select * from usage_hour"), sums(single));
});

t.test("no question reads all rows", async (t) => {
  const { ledger, database } = open(t);
  const asked: string[] = [];
  const prepare = database.prepare.bind(database);
  database.prepare = (sql) => {
    asked.push(sql);
    return prepare(sql);
  };
  await ledger.recent(1);
  await ledger.sums({ by: ["model"], since: DAY + 1, until: DAY + 5 * HOUR + 1 });
  t.equal(asked.length, 2);
  for (const sql of asked) {
    const steps = prepare(`explain query plan ${sql}`).all();
    const reads = steps.map(({ detail }) => String(detail)).filter((detail) => /\busage\b/.test(detail));
    t.ok(
      reads.length > 0 && reads.every((detail) => /^SEARCH usage USING INDEX .*time>/.test(detail)),
      reads.join("; "),
    );
  }
});

t.test("sums beyond 2^53 nano-dollars are rounded, not refused", async (t) => {
  const { ledger } = open(t);
  for (let at = 0; at < 3; at++) ledger.append(entry({ cost: Number.MAX_SAFE_INTEGER }));
  const [sum] = await ledger.sums({ by: [] });
  t.equal(sum?.cost, 3 * Number.MAX_SAFE_INTEGER);
});

t.test("what clients name never becomes SQL", async (t) => {
  const { ledger } = open(t);
  const evil = "'); drop table usage; --";
  ledger.append(entry({ id: evil, key: evil, model: evil, target: evil }));
  t.match(await ledger.recent(1), [{ id: evil, key: evil, model: evil, target: evil }]);
  t.match(await ledger.sums({ by: ["key", "model"] }), [{ group: [evil, evil] }]);
});

t.test("a full disk", async (t) => {
  const { ledger, database, warnings } = open(t);
  const limit = (pages: number) => database.prepare(`pragma max_page_count = ${pages}`).get();
  const pages = Number(database.prepare("pragma page_count").get()?.["page_count"]);
  limit(pages + 3);
  const entries = Array.from({ length: 1_000 }, () => entry());
  for (const one of entries) ledger.append(one);
  await t.rejects(ledger.flush(), /full/, "is told to who waits");
  while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  t.match(warnings, [/^The ledger cannot be written: .*full\. Its entries wait in memory\.$/], "and to the operator");
  ledger.append(entry());
  t.ok(ledger.waiting > 0, "new entries wait");
  const [partly] = await ledger.sums({ by: [] });
  t.equal(partly?.requests, rows(database), "sums tell what is on disk, row for row");
  limit(1_000_000);
  await ledger.flush();
  t.equal(rows(database), 1_001, "when there is room again nothing is missing");
  t.match(await ledger.sums({ by: [] }), [{ requests: 1_001 }]);
  t.equal((await ledger.recent(2_000)).length, 1_001, "nor what the entries have in common");
  t.equal(ledger.dropped, 0);
  t.match(warnings.slice(1), ["The ledger is being written again; 0 entries were lost."]);
});

t.test("another process that holds the file only delays", async (t) => {
  const { ledger, path, database } = open(t);
  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  ledger.append(entry());
  const flushed = ledger.flush();
  setTimeout(() => other.exec("commit"), 60);
  await flushed;
  other.close();
  t.equal(rows(database), 1);
});

t.test("memory for entries that cannot be written has an end; the oldest go first", async (t) => {
  const { ledger, path, warnings } = open(t);
  const other = new DatabaseSync(path);
  other.exec("begin immediate");
  ledger.append(entry({ id: "oldest" }));
  while (warnings.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  const attempts = [{ target: "x".repeat(1024 * 1024), startedAt: 0 }];
  for (let at = 0; at < 70; at++) ledger.append(entry({ id: `big ${at}`, attempts }));
  t.ok(ledger.waiting <= 64, "64 MiB of large ones");
  for (let at = 0; at < 101_000; at++) ledger.append(entry({ id: `small ${at}` }));
  t.ok(ledger.waiting <= 100_000, "or a hundred thousand");
  t.equal(ledger.dropped + ledger.waiting, 101_071, "what is lost is counted");
  t.equal(warnings.length, 2, "and told once");
  t.match(warnings[1], "the oldest entries are being lost");
  other.exec("commit");
  other.close();
  await ledger.flush();
  t.match(await ledger.recent(1), [{ id: "small 100999" }], "the newest are kept");
  t.match(warnings[2], `written again; ${ledger.dropped} entries were lost`);
});

t.test("an entry that no attempt could write does not stop the others", async (t) => {
  const { ledger, database, warnings } = open(t);
  ledger.append(entry());
  ledger.append({ ...entry(), key: undefined } as unknown as LedgerEntry);
  ledger.append({ ...entry(), model: {} } as unknown as LedgerEntry);
  ledger.append({ ...entry(), attempts: 1n } as unknown as LedgerEntry);
  ledger.append(entry());
  await ledger.flush();
  t.equal(rows(database), 2);
  t.equal(ledger.dropped, 3);
  t.equal(warnings.length, 3);
  t.match(await ledger.sums({ by: ["key", "model"] }), [{ group: ["k1", "fast"], requests: 2 }]);
});

t.test("closing on a store that is gone tells how much is lost, and does not throw", async (t) => {
  const { ledger, database, warnings } = open(t);
  ledger.append(entry());
  ledger.append(entry());
  database.close();
  await ledger.close();
  t.equal(ledger.dropped, 2);
  t.match(warnings, [/^2 ledger entries are lost: /]);
});

t.test("a gateway that is killed loses no entry that flush had acknowledged, and doubles none", async (t) => {
  const path = join(t.testdir(), "gateway.db");
  const root = new URL("../../", import.meta.url);
  const script = `
    import { newId } from ${JSON.stringify(new URL("src/core/id.ts", root).href)};
    import { Database } from ${JSON.stringify(new URL("src/store/sqlite.ts", root).href)};
    import { SqliteLedger } from ${JSON.stringify(new URL("src/store/sqlite-ledger.ts", root).href)};
    const ledger = new SqliteLedger(new Database(${JSON.stringify(path)}));
    const base = ${JSON.stringify(entry())};
    for (;;) {
      const ids = Array.from({ length: 37 }, () => newId(Date.now()));
      for (const id of ids) ledger.append({ ...base, id });
      await ledger.flush();
      await new Promise((resolve) => process.stdout.write(ids.join(" ") + "\\n", resolve));
    }`;
  const loader = fileURLToPath(new URL("src/loader/register.js", root));
  const acknowledged: string[] = [];
  for (let life = 0; life < 4; life++) {
    const gateway = spawn(process.execPath, ["--import", loader, "--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ended = once(gateway, "exit");
    const stopAt = acknowledged.length + 37 * (5 + life * 11);
    for await (const line of createInterface({ input: gateway.stdout })) {
      acknowledged.push(...line.split(" ").filter((id) => id.length === 36));
      if (acknowledged.length >= stopAt) gateway.kill("SIGKILL");
    }
    await ended;
  }
  const database = new Database(path);
  t.teardown(() => database.close());
  const ids = database
    .prepare("select id from usage")
    .all()
    .map(({ id }) => String(id));
  const kept = new Set(ids);
  t.ok(acknowledged.length > 37 * 80);
  t.same(
    acknowledged.filter((id) => !kept.has(id)),
    [],
    "none is lost",
  );
  t.equal(kept.size, ids.length, "none is there twice");
  t.match(
    await new SqliteLedger(database).sums({ by: [] }),
    [{ requests: ids.length }],
    "and the sums count each once",
  );
  t.equal(database.prepare("pragma integrity_check").get()?.["integrity_check"], "ok");
});
