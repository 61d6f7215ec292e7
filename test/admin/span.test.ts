import t from "tap";
import { precedingSpan, querySpan } from "../../src/admin/span.ts";

const NOW = Date.UTC(2026, 10, 22, 12);
const span = (query: string, zone = "UTC") => querySpan(new URLSearchParams(query), zone, NOW);

t.test("the default time range is the last day; all forms of a range are accepted", async (t) => {
  const DAY = 86_400_000;
  t.same(span(""), { since: NOW - DAY, until: NOW + 1 });
  t.equal(span("since=6h").since, NOW - DAY / 4);
  t.equal(span("since=today").since, NOW - DAY / 2);
  t.equal(span("since=yesterday&until=today").until, NOW - DAY / 2);
  t.equal(span("since=yesterday").since, NOW - 1.5 * DAY);
  t.equal(span("since=1790000000000").since, 1_790_000_000_000);
  t.equal(span("since=0").since, 0);
  t.equal(span("since=2026-11-01").since, Date.UTC(2026, 10, 1));
  t.throws(() => span("since=soon"), { code: "bad_request" });
});

t.test("the previous range has the same length, and for days ends at the same time of day", async (t) => {
  const [DAY, HOUR] = [86_400_000, 3_600_000];
  const before = (query: string, zone = "UTC", now = NOW) => precedingSpan(new URLSearchParams(query), zone, now);
  t.same(before("since=24h"), { since: NOW - 2 * DAY - 1, until: NOW - DAY });
  t.same(before("since=today"), { since: NOW - 1.5 * DAY, until: NOW - DAY + 1 });
  t.same(before("since=yesterday&until=today"), { since: NOW - 2.5 * DAY, until: NOW - 1.5 * DAY });
  // The 25th of October had 25 hours there, and began at 22:00 UTC.
  const late = Date.UTC(2026, 9, 25, 22, 30);
  const since = Date.UTC(2026, 9, 23, 22);
  t.same(before("since=today", "Europe/Berlin", late), { since, until: since + DAY }, "no hour of today");
  const next = Date.UTC(2026, 9, 26, 12);
  t.same(before("since=yesterday&until=today", "Europe/Berlin", next), { since, until: since + DAY });
  t.same(before("since=today", "Europe/Berlin", next), { since: since + DAY, until: since + DAY + 13 * HOUR + 1 });
});

t.test("days begin at midnight in the zone", async (t) => {
  t.equal(span("since=today", "Asia/Tokyo").since, Date.UTC(2026, 10, 21, 15));
});
