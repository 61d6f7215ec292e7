import t from "tap";
import { parseMoment, parsePastMoment, parseTimeSpan } from "../../src/text/moments.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

t.test("a moment in common notations", async (t) => {
  t.equal(parseMoment("90s", 1, NOW), NOW + 90_000, "a span in the future");
  t.equal(parseMoment("24h", -1, NOW), NOW - 86_400_000, "a span in the past");
  t.equal(parseMoment("30m", -1, NOW), NOW - 1_800_000);
  t.equal(parseMoment("90d", 1, NOW), NOW + 90 * 86_400_000);
  t.equal(parseMoment("2w", 1, NOW), NOW + 14 * 86_400_000);
  t.equal(parseMoment("2026-11-01", 1, NOW), Date.UTC(2026, 10, 1), "a date is its first moment in UTC");
  t.equal(parseMoment("2028-02-29", 1, NOW), Date.UTC(2028, 1, 29));
  for (const text of ["2026-11-01T12:30", "2026-11-01T12:30Z", "2026-11-01T12:30:00Z"]) {
    t.equal(parseMoment(text, 1, NOW), Date.UTC(2026, 10, 1, 12, 30), text);
  }
});

t.test("an invalid time is refused with a valid example", async (t) => {
  for (const text of [
    "",
    "90",
    "d",
    "90 d",
    "-1d",
    "1.5h",
    "1y",
    "9999999d",
    "tomorrow",
    "2026-02-30",
    "2026-13-01",
    "2026-11-01T25:00",
  ]) {
    t.throws(
      () => parseMoment(text, 1, NOW),
      /is not a time\. Write 90s, 30m, 24h, .*2026-11-01/,
      JSON.stringify(text),
    );
  }
});

t.test("a past moment may be a day in words, or milliseconds", async (t) => {
  const zone = () => "Asia/Tokyo";
  t.equal(parsePastMoment("today", NOW, zone), Date.UTC(2026, 10, 20, 15));
  t.equal(parsePastMoment("yesterday", NOW, zone), Date.UTC(2026, 10, 19, 15));
  t.equal(parsePastMoment("2026-11-01", NOW, zone), Date.UTC(2026, 9, 31, 15));
  t.equal(parsePastMoment("2026-11-01T00:00Z", NOW, zone), Date.UTC(2026, 10, 1));
  t.equal(
    parsePastMoment("2026-11-01T00:00", NOW, zone),
    Date.UTC(2026, 9, 31, 15),
    "the moment at which that date begins",
  );
  t.equal(parsePastMoment("2026-11-01T09:30:05", NOW, zone), Date.UTC(2026, 10, 1, 0, 30, 5));
  for (const text of ["2026-02-30", "2026-02-30T12:00", "2026-11-01T24:00", "2026-11-01T12:60"])
    t.throws(() => parsePastMoment(text, NOW, zone), /is not a time/, text);
  const berlin = () => "Europe/Berlin";
  t.equal(parsePastMoment("2026-03-29T02:30", NOW, berlin), Date.UTC(2026, 2, 29, 1, 30), "skipped: an hour later");
  t.equal(parsePastMoment("2026-10-25T02:30", NOW, berlin), Date.UTC(2026, 9, 25, 0, 30), "twice: the first one");
  t.equal(parsePastMoment("1790000000000", NOW, zone), 1_790_000_000_000);
  t.equal(parsePastMoment("24h", NOW, t.fail as never), NOW - 86_400_000, "the zone is not needed");
  t.throws(() => parsePastMoment("tomorrow", NOW, zone), /is not a time\. Write today, yesterday/);
  t.throws(() => parseMoment("today", 1, NOW), /is not a time\. Write 90s/, "a future moment cannot be yesterday");
});

t.test("where the time zone is not known, nothing is read in another one", async (t) => {
  const unknown = () => {
    throw new Error("gateway.yaml has a mistake");
  };
  for (const text of ["today", "yesterday", "2026-11-01", "2026-11-01T12:00"])
    t.throws(() => parsePastMoment(text, NOW, unknown), /^gateway\.yaml has a mistake$/, text);
  for (const text of ["24h", "2026-11-01T12:00Z"]) t.doesNotThrow(() => parsePastMoment(text, NOW, unknown), text);
});

t.test("a span has a number and a unit", async (t) => {
  t.equal(parseTimeSpan("24h", "--overlap"), 86_400_000);
  t.equal(parseTimeSpan("0s", "--overlap"), 0);
  for (const text of ["", "24", "2026-01-01"])
    t.throws(() => parseTimeSpan(text, "--overlap"), /takes a span like 24h/);
});
