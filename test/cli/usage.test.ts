import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/usage.ts";
import { runUsage } from "../../src/cli/usage.ts";
import { Days } from "../../src/core/calendar.ts";
import type { LedgerEntry } from "../../src/store/ledger.ts";
import { LEDGER_GROUPS } from "../../src/store/ledger-sums.ts";
import { keptLedger } from "../support/kept-ledger.ts";
import { captured } from "../support/terminal.ts";

/** A command line over stores in a new file. */
function terminal(t: Test) {
  const { stores, append } = keptLedger(t);
  const usage = (...args: string[]) =>
    captured((io) => runUsage(args, io, stores, () => "Asia/Tokyo"), {}, USAGE, args);
  return { usage, append, stores };
}

const words = (text: string) => text.split("\n").map((line) => line.split(/ {2,}/));

t.test("usage shows requests, tokens and money by model", async (t) => {
  const { usage, append } = terminal(t);
  t.match(await usage(), { code: 0, out: "No requests yet in that time." });
  append({});
  append({ model: "smart", cost: 31_250 });
  append({});
  const { code, out, err } = await usage();
  t.same([code, err], [0, ""]);
  t.same(words(out), [
    ["MODEL", "REQUESTS", "FAILED", "TOKENS IN", "CACHED", "TOKENS OUT", "REASONING", "COST", "UNSETTLED"],
    ["fast", "2", "0", "2,000,000", "500,000", "4,000", "1,000", "$0.5080", "0"],
    ["smart", "1", "0", "1,000,000", "250,000", "2,000", "500", "$0.00003125", "0"],
    ["total", "3", "0", "3,000,000", "750,000", "6,000", "1,500", "$0.5080", "0"],
  ]);
});

t.test("usage can be grouped by other fields, and keys have their names", async (t) => {
  const { usage, append, stores } = terminal(t);
  const { record } = await stores.keys.create({ name: "reports" });
  append({ key: record.id });
  append({ key: "removed", time: Date.UTC(2026, 10, 21), target: "" });
  append({ outcome: "rejected", status: 401, model: "", target: "", source: "none", time: Date.UTC(2026, 10, 22) });
  const rows = words((await usage("--by", "day, key,target")).out).map((row) => row.slice(0, 5));
  t.same(rows.slice(0, 5), [
    ["DAY", "KEY", "TARGET", "REQUESTS", "FAILED"],
    ["2026-11-20", "reports", "p:m", "1", "0"],
    ["2026-11-21", "removed", "-", "1", "0"],
    ["2026-11-22", "-", "-", "1", "1"],
    ["total", "3", "1", "3,000,000", "750,000"],
  ]);
  t.match(
    (await usage()).out,
    /\n\nUnsettled: the provider reported no tokens or not all/,
    "an incomplete sum is explained",
  );
});

t.test("usage by day has the days of the file's timezone", async (t) => {
  const { usage, append } = terminal(t);
  append({ time: Date.UTC(2026, 10, 20, 14, 59) });
  append({ time: Date.UTC(2026, 10, 20, 15) });
  append({ time: Date.UTC(2026, 10, 21, 14) });
  const found = JSON.parse((await usage("--by", "day", "--json")).out);
  t.match(found, [
    { day: "2026-11-20", requests: 1 },
    { day: "2026-11-21", requests: 2 },
  ]);
  t.match(JSON.parse((await usage("--by", "day", "--since", "2026-11-21", "--json")).out), [{ requests: 2 }]);
});

t.test("usage begins at one moment and ends before another, and a day is one of the zone", async (t) => {
  const { usage, append } = terminal(t);
  append({ model: "old", time: Date.UTC(2026, 9, 31, 14, 59, 59) });
  append({ model: "new", time: Date.UTC(2026, 9, 31, 15) });
  append({ model: "now", time: Date.now() - 1_000 });
  const models = async (...args: string[]) =>
    (JSON.parse((await usage("--json", ...args)).out) as { model: string }[]).map(({ model }) => model).sort();
  t.same(await models("--since", "2026-11-01", "--until", "2026-11-02"), ["new"], "from, and up to but without");
  t.same(await models("--until", "2026-11-01"), ["old"]);
  t.same(await models("--since", "24h"), ["now"]);
  const today = new Days("Asia/Tokyo").today(Date.now());
  append({ model: "yesterday", time: today - 1 });
  append({ model: "today", time: today });
  t.ok((await models("--since", "today")).includes("today"));
  t.notOk((await models("--since", "today")).includes("yesterday"), "a day of the zone's");
  t.same(await models("--since", "yesterday", "--until", "today"), ["yesterday"]);
  t.match(await usage("--since", "tomorrow"), { code: 2, err: /is not a time\. Write today, yesterday/ });
});

t.test("usage --last shows the newest requests one by one", async (t) => {
  const { usage, append } = terminal(t);
  t.match(await usage("--last", "5"), { code: 0, out: "No requests yet." });
  append({});
  append({
    time: Date.UTC(2026, 10, 20, 13),
    attempts: [
      { target: "q:m", startedAt: 0 },
      { target: "p:m", startedAt: 9 },
    ],
  });
  append({ time: Date.UTC(2026, 10, 20, 11), model: "not shown" });
  const lines = words((await usage("--last", "2")).out);
  t.same(lines[0]?.slice(0, 7), ["TIME", "KEY", "MODEL", "TARGET", "STATUS", "OUTCOME", "TRIES"]);
  const row = ["-", "fast", "p:m", "200", "completed", "2", "80 ms", "1,234 ms", "1,000,000", "2,000", "$0.2540"];
  t.same(lines[1], ["2026-11-20 13:00:00Z", ...row]);
  t.equal(lines.length, 3);
});

t.test("a count that nobody reported is a dash, not 0", async (t) => {
  const { usage, stores } = terminal(t);
  stores.ledger.append({
    ...{ id: "1", time: 0, key: "", model: "", target: "", protocol: "wire", operation: "generate", status: 499 },
    ...{ outcome: "aborted", streaming: true, attempts: [], duration: 5, source: "none" },
  });
  const [, row] = words((await usage("--last", "1")).out);
  t.same(row, ["1970-01-01 00:00:00Z", "-", "-", "-", "499", "aborted", "0", "-", "5 ms", "-", "-", "-"]);
});

t.test("usage --json prints exact numbers", async (t) => {
  const { usage, append } = terminal(t);
  append({ id: "mine" });
  t.same(JSON.parse((await usage("--by", "target,model", "--json")).out), [
    {
      ...{ target: "p:m", model: "fast", requests: 1, failed: 0, tokens_in: 1_000_000, cached: 250_000 },
      ...{ tokens_out: 2_000, reasoning: 500, cost: 254_000_000, unsettled: 0 },
    },
  ]);
  t.match(JSON.parse((await usage("--last", "1", "--json")).out), [
    { id: "mine", cost: 254_000_000, source: "reported" },
  ]);
});

t.test("usage by the group and the tags that keys had at the time", async (t) => {
  const { usage, append } = terminal(t);
  append({ group: "acme/research", tags: { team: "search", env: "test" } });
  append({ group: "acme", tags: { team: "search" } });
  append({});
  const first = async (by: string) => words((await usage("--by", by)).out).map((row) => row.slice(0, 2));
  t.same((await first("group")).sort(), [
    ["-", "1"],
    ["GROUP", "REQUESTS"],
    ["acme", "1"],
    ["acme/research", "1"],
    ["total", "3"],
  ]);
  t.same(
    (await first("tag")).sort(),
    [
      ["TAG", "REQUESTS"],
      ["team=search", "2"],
      ["-", "1"],
      ["env=test", "1"],
      ["total", "3"],
    ].sort(),
    "a request with two tags counts for each, and once in the total",
  );
  t.equal((await usage("--by", "key,tag,group,day")).code, 0);
});

t.test("usage --csv prints titles, exact money, and names in quotes where they need them", async (t) => {
  const { usage, append, stores } = terminal(t);
  const { record } = await stores.keys.create({ name: 'a "good", key' });
  append({ key: record.id, cost: 254_000_001 });
  t.same((await usage("--by", "key,model", "--csv")).out.split("\n"), [
    "key,key_name,model,requests,failed,tokens_in,cached,tokens_out,reasoning,cost_usd,unsettled",
    `${record.id},"a ""good"", key",fast,1,0,1000000,250000,2000,500,0.254000001,0`,
  ]);
  t.equal((await usage("--until", "2020-01-01", "--csv")).out.split("\n").length, 1, "titles alone");
});

t.test("usage --rows prints a line for each request, the newest last", async (t) => {
  const { usage, append } = terminal(t);
  for (let i = 0; i < 2500; i++)
    append({ id: `row-${i}`, time: Date.UTC(2026, 10, 20) + (i % 1250), tags: { n: "1" } });
  const rows = async (...args: string[]) =>
    (await usage("--rows", "--json", ...args)).out
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as LedgerEntry);
  const all = await rows();
  t.equal(new Set(all.map(({ id }) => id)).size, 2500);
  t.equal(all.length, 2500);
  t.ok(all.every(({ time }, i) => i === 0 || time >= (all[i - 1]?.time ?? 0)));
  t.match(all[0], {
    time: Date.UTC(2026, 10, 20),
    tags: { n: "1" },
    outcome: "completed",
    usage: { in: { total: 1_000_000 } },
  });
  t.same(await rows("--since", "2026-11-21"), []);
});

t.test("the help names what sums can be grouped by", async (t) => {
  t.ok(USAGE.includes(`one or more of ${LEDGER_GROUPS.join(", ")};`));
  t.ok(help.includes(`--by ${LEDGER_GROUPS.join()}]`));
});

t.test("an invalid command line exits with 2 and prints what is accepted", async (t) => {
  const { usage } = terminal(t);
  const cases: [string[], RegExp][] = [
    [["today"], /"today" is one word too many/],
    [["--group", "key"], /Unknown option '--group'/],
    [["--by", "colour"], /"colour": choose from key, group, model, target, tag, day/],
    [["--by", "key,key"], /twice/],
    [["--since", "tomorrow"], /--since: "tomorrow" is not a time/],
    [["--since", "2026-11-02", "--until", "2026-11-01"], /must be before/],
    [["--last", "0"], /from 1 to 1,000/],
    [["--last", "many"], /from 1 to 1,000/],
    [["--last", "5", "--by", "key"], /cannot be combined/],
    [["--last", "5", "--csv"], /cannot be combined/],
    [["--json", "--csv"], /exclude each other/],
    [["--rows"], /--rows needs --json/],
    [["--rows", "--json", "--by", "key"], /--rows needs/],
    [["--rows", "--json", "--since", "2026-11-02", "--until", "2026-11-01"], /must be before/],
  ];
  for (const [args, why] of cases) {
    const { code, out, err } = await usage(...args);
    t.same([code, out], [2, ""], args.join(" "));
    t.match(err, why);
    t.match(err, "usage: npm start -- usage [--by");
  }
});

t.test("a store that fails is exit code 1", async (t) => {
  const { usage, stores } = terminal(t);
  await stores.close();
  t.match(await usage(), { code: 1, out: "", err: /./ });
});

t.test("its own help begins with its usage, and the overall help has its lines", async (t) => {
  t.match(help, /^usage \[--by/);
  t.match(USAGE, /^usage: npm start -- usage/);
});
