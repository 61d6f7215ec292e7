import t from "tap";
import { when } from "../../src/cli/when.ts";

const NOW = Date.UTC(2026, 10, 21, 12);

t.test("a moment as people write it", async (t) => {
  t.equal(when("90s", 1, NOW), NOW + 90_000, "a span ahead");
  t.equal(when("24h", -1, NOW), NOW - 86_400_000, "a span back");
  t.equal(when("30m", -1, NOW), NOW - 1_800_000);
  t.equal(when("90d", 1, NOW), NOW + 90 * 86_400_000);
  t.equal(when("2w", 1, NOW), NOW + 14 * 86_400_000);
  t.equal(when("2026-11-01", 1, NOW), Date.UTC(2026, 10, 1), "a date is its first moment in UTC");
  t.equal(when("2028-02-29", 1, NOW), Date.UTC(2028, 1, 29));
  for (const text of ["2026-11-01T12:30", "2026-11-01T12:30Z", "2026-11-01T12:30:00Z"]) {
    t.equal(when(text, 1, NOW), Date.UTC(2026, 10, 1, 12, 30), text);
  }
});

t.test("what is no moment is refused with what is one", async (t) => {
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
    t.throws(() => when(text, 1, NOW), /is no moment\. Write 90s, 30m, 24h, .*2026-11-01/, JSON.stringify(text));
  }
});
