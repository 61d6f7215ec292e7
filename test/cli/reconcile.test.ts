import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { help, USAGE } from "../../src/cli/help/reconcile.ts";
import { runReconcile } from "../../src/cli/reconcile.ts";
import { priceVersion } from "../../src/core/price-list.ts";
import { keptLedger } from "../support/kept-ledger.ts";
import { captured } from "../support/terminal.ts";

/** A command line over stores in a new file, and an invoice beside them. */
function terminal(t: Test, invoice: string) {
  const { folder, stores, append } = keptLedger(t);
  writeFileSync(join(folder, "invoice.csv"), invoice);
  const reconcile = (...args: string[]) =>
    captured((io) => runReconcile(args, io, stores, ["p", "other"]), { folder }, USAGE, args);
  return { reconcile: Object.assign(reconcile, { folder }), append, stores };
}

const words = (text: string) => text.split("\n").map((line) => line.split(/ {2,}/));
const USAGE_EXPORT = "start_time_iso,model,input_tokens,output_tokens,input_cached_tokens\n";

t.test("an invoice that agrees with the ledger exits with 0, and prints the sums", async (t) => {
  const { reconcile, append } = terminal(
    t,
    `${USAGE_EXPORT}2026-11-20T00:00:00+00:00,m-2026-01-01,2000000,4000,500000\n`,
  );
  append({});
  append({});
  const { code, out, err } = await reconcile("invoice.csv");
  t.same([code, err], [0, ""]);
  t.same(words(out), [
    ["DAY", "MODEL", "OF", "INVOICE", "LEDGER", "DIFFERENCE", "NOTE"],
    ["total", "tokens in", "2,000,000", "2,000,000", "0"],
    ["total", "cached", "500,000", "500,000", "0"],
    ["total", "tokens out", "4,000", "4,000", "0"],
    [""],
    ["By day and model, 0 of 1 differ by more than 1 % from the ledger's figures for p."],
  ]);
});

t.test('a file of a spreadsheet\'s "Unicode text" is parsed as well', async (t) => {
  const { reconcile, append } = terminal(t, "");
  append({});
  const text = "\ufeffdate\tmodel\tinput_tokens\r\n2026-11-20\tm\t1000000\r\n";
  writeFileSync(join(reconcile.folder, "invoice.csv"), text, "utf16le");
  t.match(await reconcile("invoice.csv"), { code: 0, err: "" });
});

t.test("a difference exits with 1, and prints day, model and amount", async (t) => {
  const { reconcile, append } = terminal(
    t,
    "Date,Model,Cost ($)\n2026-11-20,m,0.300000\n2026-11-20,other,7.000000\n2026-11-21,m,0.000002\nsoon,m,3.000000\n",
  );
  append({ source: "estimated" });
  append({ model: "x", target: "p:unbilled" });
  const { code, out } = await reconcile("invoice.csv");
  t.equal(code, 1);
  t.same(words(out).slice(1), [
    ["2026-11-20", "m", "money", "$0.3000", "$0.2540", "+$0.0460", "1 unsettled"],
    ["2026-11-20", "unbilled", "money", "$0.0000", "$0.2540", "-$0.2540", "not on the invoice"],
    ["2026-11-21", "m", "money", "$0.000002", "$0.0000", "+$0.000002", "not in the ledger"],
    ["total", "money", "$7.3000", "$0.5080", "+$6.7920"],
    [""],
    ["By day and model, 3 of 3 differ by more than 1 % from the ledger's figures for p."],
    ['Not in the ledger: "other", 1 line, $7.0000. If it is one of its models: --match other=MODEL'],
    ['Line 5 could not be read: "soon" is not a day like 2026-11-20.'],
  ]);
  const matched = await reconcile("invoice.csv", "--match", "other=unbilled", "--tolerance", "50%", "--json");
  t.equal(matched.code, 1);
  t.match(JSON.parse(matched.out), {
    agrees: false,
    compared: ["cost"],
    providers: ["p"],
    unmatched: { length: 0 },
    unread: [{ line: 5 }],
    differences: [
      { day: "2026-11-20", model: "unbilled", names: ["other"], invoice: { cost: 7e9 }, ledger: { cost: 254_000_000 } },
      { day: "2026-11-21", model: "m" },
    ],
  });
});

t.test("with --all rows that agree are printed too", async (t) => {
  const { reconcile, append } = terminal(t, "day,product,net\n2026-11-20,m,0.254\n");
  append({});
  t.match(await reconcile("invoice.csv"), { code: 2, err: /^The file has no column for model\./ });
  const { code, out } = await reconcile("invoice.csv", "--all", "--columns", "model=Product,cost=Net");
  t.equal(code, 0);
  t.same(words(out)[1], ["2026-11-20", "m", "money", "$0.2540", "$0.2540", "$0.0000"]);
});

t.test("the provider must be named if the invoice could be of several", async (t) => {
  const { reconcile, append } = terminal(t, "date,model,cost\n2026-11-20,m,0.254\n");
  append({});
  append({ target: "q:m" });
  t.match(await reconcile("invoice.csv"), {
    code: 2,
    out: "",
    err: "Models of this file were served by p and q. Name its provider with --provider NAME, or several that are one account with --provider NAME,NAME.",
  });
  t.match(await reconcile("invoice.csv", "--provider", "q"), { code: 0 });
  t.match(await reconcile("invoice.csv", "--provider", "p,q"), { code: 1 });
  t.match(
    await reconcile("invoice.csv", "--provider", "other"),
    { code: 1 },
    "one of gateway.yaml that answered nothing",
  );
  const wrong = await reconcile("invoice.csv", "--provider", "p,pp");
  t.match(wrong, { code: 2, out: "", err: /^--provider: there is no "pp"; there are other, p, q\.\n/ });
  const aside = await reconcile("invoice.csv", "--provider", "q", "--match", "mm=m");
  t.match(aside, { code: 0, err: /^--match: this file has no "mm"; there is \S+\.$/ });
});

t.test("additional usage of a vendor is compared with the lines of what ran", async (t) => {
  const lines = [
    "usage_date_utc,model,cost_type,token_type,cost_usd",
    "2026-11-20,m,tokens,output,0.240000",
    "2026-11-20,adviser,tokens,output,0.004000",
    "2026-11-20,,web_search,,0.010000",
    "2026-11-20,,code_execution,,0.050000",
  ];
  const { reconcile, append, stores } = terminal(t, lines.join("\n"));
  const [own, other] = [{ input: 0.22, output: 10, web_search: 0.01 }, { output: 40 }];
  const kept = [own, other].map((price) => ({ version: priceVersion(price), price, source: "gateway.yaml" }));
  await stores.prices.keep(kept);
  append({
    usage: {
      ...{ in: { total: 1_000_000 }, out: { total: 2_000 }, raw: undefined, serverTools: { web_search_requests: 1 } },
      besides: [{ in: {}, out: { total: 100 }, model: "adviser", price: priceVersion(other) }],
    },
    price: priceVersion(own),
  });
  const { code, out } = await reconcile("invoice.csv", "--all");
  t.equal(code, 1);
  t.same(words(out).slice(1), [
    ["2026-11-20", "adviser", "money", "$0.0040", "$0.0040", "$0.0000"],
    ["2026-11-20", "m", "money", "$0.2400", "$0.2400", "$0.0000"],
    ["2026-11-20", "web-search", "money", "$0.0100", "$0.0100", "$0.0000"],
    ["total", "money", "$0.3040", "$0.2540", "+$0.0500"],
    [""],
    ["By day and model, 0 of 3 differ by more than 1 % from the ledger's figures for p."],
    ['Not in the ledger: "code_execution", 1 line, $0.0500. If it is one of its models: --match code_execution=MODEL'],
  ]);
});

t.test("a file without any comparable row does not agree", async (t) => {
  const { reconcile, append } = terminal(t, "date,model,cost,currency\n2026-11-20,m,1,eur\n");
  append({});
  t.match(await reconcile("invoice.csv"), {
    code: 2,
    err: "Nothing in the file can be compared: it has no tokens, and its money is in eur, the ledger's in dollars.",
  });
});

t.test("a line in another currency among those in dollars is reported, and the others are compared", async (t) => {
  const { reconcile, append } = terminal(
    t,
    "date,model,cost,currency,output_tokens\n2026-11-20,m,1,usd,5\n2026-11-20,m,1,eur,5\n2026-11-20,n,1,eur,\n",
  );
  append({});
  const { code, out } = await reconcile("invoice.csv", "--provider", "p");
  t.equal(code, 1);
  t.match(out, "Line 4 could not be read: its money is in eur, the ledger's in dollars.");
  t.match(out, "Money of 2 lines is in eur, the ledger's in dollars: it was not compared.");
});

t.test("lines of other API keys are left out on request", async (t) => {
  const { reconcile, append } = terminal(
    t,
    "date,API key,region,model,cost\n2026-11-20,ours,eu,m,0.2\n2026-11-20,older,eu,m,0.054\n2026-11-20,theirs,eu,m,9\n2026-11-20,ours,us,m,9\n",
  );
  append({});
  t.match(await reconcile("invoice.csv"), { code: 1 });
  const only = ["api_key=ours", "API Key=older", "region=eu"].flatMap((value) => ["--only", value]);
  const { code, out } = await reconcile("invoice.csv", ...only);
  t.equal(code, 0);
  t.match(out, "\n2 of the file's lines were left out by --only.");
  t.match(JSON.parse((await reconcile("invoice.csv", "--json", ...only)).out), { agrees: true, others: 2 });
  t.match(await reconcile("invoice.csv", "--only", "workspace=a"), {
    code: 2,
    err: 'The file has no column "workspace"; it has: date, api_key, region, model, cost',
  });
});

t.test("an unknown argument prints the usage", async (t) => {
  const { reconcile } = terminal(t, "date,model,cost\n2026-11-20,m,1\n");
  for (const [args, message] of [
    [[], "reconcile takes one file."],
    [["a", "b"], "reconcile takes one file."],
    [["invoice.csv", "--tolerance", "1"], "--tolerance takes a share like 1% or 0.5%."],
    [
      ["invoice.csv", "--timezone", "Mars"],
      '--timezone: "Mars" is not a time zone; write one like Europe/Berlin or UTC.',
    ],
    [["invoice.csv", "--columns", "x=y"], "--columns: x is not one of date, until,"],
    [["invoice.csv", "--only", "x"], '--only takes NAME=VALUE, not "x".'],
    [["invoice.csv", "--match", "x"], '--match takes NAME=VALUE, not "x".'],
  ] as const) {
    const { code, err } = await reconcile(...args);
    t.equal(code, 2);
    t.ok(err.startsWith(message), err);
    t.match(err, /\nusage: npm start -- reconcile INVOICE\.csv .*--match.*\nsee: npm start -- reconcile --help$/s);
  }
  t.match(await reconcile("none.csv"), { code: 2, err: /none\.csv cannot be read: there is no such file/ });
  t.match(help, "reconcile INVOICE.csv");
});
