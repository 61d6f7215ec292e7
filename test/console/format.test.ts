import t from "tap";

// Written for browsers, and without types.
const format: Record<"count" | "tokens" | "money" | "price" | "moment" | "offset", (value?: number | null) => string> =
  await import(new URL("../../pages/common/format.js", import.meta.url).href);

t.test("numbers, prices and money are formatted for people", async (t) => {
  const { count, money, price } = format;
  t.same([0, 999, 1000, 1234567, -1234, null, undefined].map(count), "0 999 1,000 1,234,567 -1,234 – –".split(" "));
  // From nano-dollars, with three digits below a dollar.
  t.same(
    [0, 1, 4165, 123_456, 50_000_000, 999_999_999, 1_234_567_890_000, -1_500_000_000, null].map(money),
    "$0 $0.000000001 $0.00000417 $0.000123 $0.05 $1.00 $1,234.57 -$1.50 –".split(" "),
  );
  t.same([0, 3, 0.15, 0.0375, 1234.5, null].map(price), "free $3.00 $0.15 $0.0375 $1,234.50 –".split(" "));
});

t.test("tokens are rounded to a tenth of their unit, and to the next unit where they reach it", async (t) => {
  t.same(
    [0, 999, 1000, 1150, 999_949, 999_950, 999_960, 1_000_000, 999_949_999, 999_950_000, undefined].map(format.tokens),
    "0 999 1k 1.2k 999.9k 1M 1M 1M 999.9M 1G –".split(" "),
  );
});

t.test("the singular is used for one", async (t) => {
  const counted = format["counted" as "count"] as unknown as (number: number | undefined, thing: string) => string;
  t.same(
    [0, 1, 2, 1200, undefined].map((number) => counted(number, "request")),
    ["0 requests", "1 request", "2 requests", "1,200 requests", "– requests"],
  );
});

t.test("a key is shown by its name, with its id if two have the same name", async (t) => {
  const keyNames = format["keyNames" as "count"] as unknown as (keys: object[]) => Map<string, string>;
  const keys = [
    ...[
      ["ci", "ci"],
      ["a1", "alice"],
      ["b1", "bob"],
      ["b2", "bob"],
    ].map(([id, name]) => ({ id, name })),
  ];
  t.same([...keyNames(keys).values()], ["ci", "alice", "bob (b1)", "bob (b2)"]);
});

t.test("a time is shown in the reader's zone, midnight as 00", async (t) => {
  const year = new Date().getFullYear();
  t.equal(format.moment(new Date(year, 10, 3, 0, 5, 9).getTime()), "Nov 03, 00:05:09");
  t.equal(format.moment(new Date(2031, 1, 26, 17, 0, 0).getTime()), "Feb 26 2031, 17:00:00", "another year is named");
});

t.test("the offset of the reader's zone is computed for each time", async (t) => {
  const zone = process.env["TZ"];
  t.teardown(() => {
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
  });
  const [winter, summer] = [Date.UTC(2026, 0, 15), Date.UTC(2026, 6, 15)];
  for (const [name, ...offsets] of [
    ["UTC", "UTC", "UTC"],
    ["Europe/Berlin", "UTC+1", "UTC+2"],
    ["Asia/Kolkata", "UTC+5:30", "UTC+5:30"],
    ["America/St_Johns", "UTC−3:30", "UTC−2:30"],
  ] as const) {
    process.env["TZ"] = name;
    t.same([winter, summer].map(format.offset), offsets, name);
  }
});

t.test("no page uses Intl, which takes longer on first use than everything else", async (t) => {
  const { globSync, readFileSync } = await import("node:fs");
  const folder = new URL("../../pages/", import.meta.url).pathname;
  for (const name of globSync("**/*.js", { cwd: folder }))
    t.notMatch(readFileSync(folder + name, "utf8"), /\bIntl\.|\.toLocale|\.localeCompare/, name);
});
