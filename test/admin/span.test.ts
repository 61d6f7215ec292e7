import t from "tap";
import { spanOf } from "../../src/admin/span.ts";

const NOW = Date.UTC(2026, 10, 22, 12);
const span = (query: string, zone = "UTC") => spanOf(new URLSearchParams(query), zone, NOW);

t.test("a span is the last day, or what is asked for in any of its forms", async (t) => {
  const DAY = 86_400_000;
  t.same(span(""), { since: NOW - DAY, until: NOW + 1 });
  t.equal(span("since=6h").since, NOW - DAY / 4);
  t.equal(span("since=today").since, NOW - DAY / 2);
  t.equal(span("since=yesterday&until=today").until, NOW - DAY / 2);
  t.equal(span("since=yesterday").since, NOW - 1.5 * DAY);
  t.equal(span("since=1790000000000").since, 1_790_000_000_000);
  t.equal(span("since=2026-11-01").since, Date.UTC(2026, 10, 1));
  t.throws(() => span("since=soon"), { code: "bad_request" });
});

t.test("days begin where the clocks of the zone hang", async (t) => {
  t.equal(span("since=today", "Asia/Tokyo").since, Date.UTC(2026, 10, 21, 15));
});
