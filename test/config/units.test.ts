import t from "tap";
import {
  exactDollars,
  formatDuration,
  formatMoney,
  formatPercent,
  parseCount,
  parseDate,
  parseDuration,
  parseMoney,
  parsePercent,
  parsePeriod,
  parseRetention,
  parseSize,
} from "../../src/config/units.ts";

t.test("a duration becomes milliseconds", async (t) => {
  for (const [written, milliseconds] of Object.entries({
    "90s": 90_000,
    "500ms": 500,
    "5m": 300_000,
    "1h": 3_600_000,
    "1.5h": 5_400_000,
    off: 0,
  }))
    t.equal(parseDuration(written), milliseconds, written);
});

t.test("a duration without a unit, or with a strange one, is refused with the accepted forms", async (t) => {
  for (const written of ["90", 90, "5 s", "-5s", "1d", "soon", "", "s", "5constructor", "1e3s", "Off"])
    t.throws(() => parseDuration(written), {
      name: "RangeError",
      message: `${JSON.stringify(written)} is not a duration; write it like 90s, 500ms, 5m, 1h or off`,
    });
});

t.test("a duration that overflows a timer is refused", async (t) => {
  t.equal(parseDuration("596h"), 596 * 3_600_000);
  for (const short of ["0s", "0.1ms"])
    t.throws(() => parseDuration(short), { message: `${short} is too short: more than 0, or off` });
  t.throws(() => parseDuration("597h"), { message: "597h is too long: at most 596h, or off" });
});

t.test("where a time cannot be off, no message advises it", async (t) => {
  t.equal(parsePeriod("30s"), 30_000);
  for (const written of ["off", "60", "30 s", "yes", "0s", "597h"])
    t.throws(() => parsePeriod(written), { name: "RangeError", message: /^(?!.*\boff\b(?!"))/ });
  t.throws(() => parsePeriod("off"), { message: '"off" is not a duration; write it like 90s, 500ms, 5m or 1h' });
});

t.test("a retention time is a number of days", async (t) => {
  t.same(
    ["2d", "400d", "52w", "off"].map(parseRetention),
    [2, 400, 364, 0].map((days) => days * 86_400_000),
  );
  for (const written of ["400", 400, "24h", "1.5d", "-3d", ""])
    t.throws(() => parseRetention(written), {
      name: "RangeError",
      message: `${JSON.stringify(written)} is not a number of days; write it like 400d, 52w or off`,
    });
  t.throws(() => parseRetention("1d"), { message: "1d is too short: 2d or more, or off" });
});

t.test("a size becomes bytes, in thousands or in 1024s according to its unit", async (t) => {
  for (const [written, bytes] of Object.entries({
    "64MiB": 64 * 2 ** 20,
    "1MB": 1e6,
    "512KiB": 524_288,
    "10B": 10,
    "1.5KB": 1500,
  }))
    t.equal(parseSize(written), bytes, written);
});

t.test("a size without a unit is refused with the accepted forms", async (t) => {
  for (const written of ["64", 64, "64M", "64mib", "-1MB", "MB"])
    t.throws(() => parseSize(written), {
      message: `${JSON.stringify(written)} is not a size; write it like 64MiB, 1MB or 512KiB`,
    });
  t.throws(() => parseSize("0.3B"), { message: "0.3B is not a whole size in bytes" });
});

t.test("a count may have a suffix", async (t) => {
  for (const [written, number] of [
    ["128k", 128_000],
    ["1M", 1e6],
    ["1.5M", 1_500_000],
    ["400_000", 400_000],
    [300, 300],
    ["0", 0],
    ["4.1k", 4100],
  ] as const)
    t.equal(parseCount(written), number, String(written));
});

t.test("an invalid count is refused with the accepted forms", async (t) => {
  for (const written of ["5x", "1m", "-1", -1, "1,000", "k", Number.NaN, 1e21])
    t.throws(() => parseCount(written), {
      message: `${JSON.stringify(written)} is not a count; write it like 300, 400_000, 128k or 1M`,
    });
  t.throws(() => parseCount(1.5), { message: "1.5 is not a whole count" });
});

t.test("money becomes exact nano-dollars and a period", async (t) => {
  t.same(parseMoney("$50/month"), { nano: 50_000_000_000, per: "month" });
  t.same(parseMoney("$10/day"), { nano: 10_000_000_000, per: "day" });
  t.same(parseMoney("$1/hour"), { nano: 1_000_000_000, per: "hour" });
  t.same(parseMoney("$100"), { nano: 100_000_000_000, per: "total" });
  t.same(parseMoney("$1_000.5"), { nano: 1_000_500_000_000, per: "total" });
});

t.test("every amount of nano-dollars is unchanged after formatting with nine decimals", async (t) => {
  for (let i = 0, nano = 1; i < 200; i++, nano = (nano * 48_271) % 2_147_483_647) {
    const digits = String(nano * 1000 + i).padStart(10, "0");
    t.equal(parseMoney(`$${digits.slice(0, -9)}.${digits.slice(-9)}`).nano, nano * 1000 + i);
  }
});

t.test("an invalid amount is refused with the accepted forms", async (t) => {
  for (const written of ["50/month", "$50/year", "50", 50, "$-5", "$1,000", "€5", "$0.0000000001"])
    t.throws(() => parseMoney(written), {
      message: `${JSON.stringify(written)} is not a sum of money; write it like $50/month, $15/week, $10/day, $1/hour or $100 (in total)`,
    });
  for (const written of ["$0", "$0.00/day"])
    t.throws(() => parseMoney(written), { message: "$0 would refuse every request; write more, or off" });
  t.throws(() => parseMoney("$10_000_000"), { message: "$10_000_000 is too much: at most $9_000_000" });
});

t.test("a date is its first instant in UTC", async (t) => {
  t.equal(parseDate("2026-12-31"), Date.UTC(2026, 11, 31));
  t.equal(parseDate("2028-02-29"), Date.UTC(2028, 1, 29));
  t.equal(parseDate("2026-12-31T18:00:00+02:00"), Date.UTC(2026, 11, 31, 16));
});

t.test("a day that does not exist is refused with the accepted forms", async (t) => {
  for (const written of [
    "2026-02-30",
    "2027-02-29",
    "2026-13-01",
    "2026-00-10",
    "31.12.2026",
    "2026-1-1",
    "2026-04-31T10:00:00Z",
    "2026-12-31T25:00:00Z",
    "tomorrow",
  ])
    t.throws(() => parseDate(written), {
      message: `${JSON.stringify(written)} is not a date; write it like 2026-12-31 or 2026-12-31T18:00:00Z`,
    });
});

t.test("durations, ratios and sums are formatted as they are parsed", async (t) => {
  for (const written of ["500ms", "90s", "5m", "1h", "off"]) t.equal(formatDuration(parseDuration(written)), written);
  for (const written of ["50%", "7.5%", "off"]) t.equal(formatPercent(parsePercent(written)), written);
  for (const written of ["$50/month", "$0.000000001/hour", "$1.50", "$0.125/day"])
    t.equal(formatMoney(parseMoney(written)), written);
  t.equal(formatMoney(parseMoney("$0.3/day")), "$0.30/day");
});

t.test("money is exact to the last digit", async (t) => {
  for (const [nano, text] of [
    [0, "0"],
    [1, "0.000000001"],
    [1_500_000_000, "1.5"],
    [-31_250, "-0.00003125"],
    [12_345_000_000_001, "12345.000000001"],
  ] as const)
    t.equal(exactDollars(nano), text);
});
