import t from "tap";
import { Calendar, Days, type Period } from "../../src/core/calendar.ts";

const at = (text: string): number => Date.parse(text);
const iso = (time: number): string => new Date(time).toISOString();
const span = (zone: string, per: Period, now: string) => {
  const { start, end } = new Calendar(zone).span(per, at(now));
  return `${iso(start)} ${iso(end)}`;
};

t.test("hours, days, weeks from Monday on and months begin by their zone's clock", async (t) => {
  const wednesday = "2026-11-18T23:45:10.500Z";
  t.equal(span("UTC", "hour", wednesday), "2026-11-18T23:00:00.000Z 2026-11-19T00:00:00.000Z");
  t.equal(span("UTC", "day", wednesday), "2026-11-18T00:00:00.000Z 2026-11-19T00:00:00.000Z");
  t.equal(span("UTC", "week", wednesday), "2026-11-16T00:00:00.000Z 2026-11-23T00:00:00.000Z");
  t.equal(span("UTC", "month", wednesday), "2026-11-01T00:00:00.000Z 2026-12-01T00:00:00.000Z");
  t.equal(span("Europe/Berlin", "day", wednesday), "2026-11-18T23:00:00.000Z 2026-11-19T23:00:00.000Z");
  t.equal(span("Asia/Kolkata", "hour", wednesday), "2026-11-18T23:30:00.000Z 2026-11-19T00:30:00.000Z");
});

t.test("a day on which clocks change has 23 or 25 hours, and one may begin after midnight", async (t) => {
  t.equal(span("Europe/Berlin", "day", "2026-03-29T12:00:00Z"), "2026-03-28T23:00:00.000Z 2026-03-29T22:00:00.000Z");
  t.equal(span("Europe/Berlin", "day", "2026-10-25T12:00:00Z"), "2026-10-24T22:00:00.000Z 2026-10-25T23:00:00.000Z");
  t.equal(span("Africa/Cairo", "day", "2026-04-24T12:00:00Z"), "2026-04-23T22:00:00.000Z 2026-04-24T21:00:00.000Z");
});

t.test("every time in a period yields that period, and its end yields the next one", async (t) => {
  const calendar = new Calendar("UTC");
  const first = calendar.span("day", at("2026-11-18T00:00:00Z"));
  t.equal(calendar.span("day", at("2026-11-18T23:59:59.999Z")), first);
  t.equal(calendar.span("day", first.end).start, first.end);
  t.equal(iso(calendar.span("day", first.start - 1).end), iso(first.start), "also back");
});

t.test("a total period never ends", async (t) => {
  t.same(new Calendar().span("total", 5), { start: 0, end: Number.POSITIVE_INFINITY });
});

t.test("an unknown zone is refused", async (t) => {
  t.throws(() => new Calendar("Europe/Bonn"), RangeError);
});

t.test(
  "an hour in which clocks are set back by half an hour is two periods, which have every moment of it",
  async (t) => {
    const back = Date.UTC(2026, 3, 4, 15);
    const spans = [-60, -1, 0, 29, 30].map((minutes) =>
      span("Australia/Lord_Howe", "hour", iso(back + minutes * 60_000)),
    );
    t.same(spans, [
      "2026-04-04T14:00:00.000Z 2026-04-04T15:00:00.000Z",
      "2026-04-04T14:00:00.000Z 2026-04-04T15:00:00.000Z",
      "2026-04-04T15:00:00.000Z 2026-04-04T15:30:00.000Z",
      "2026-04-04T15:00:00.000Z 2026-04-04T15:30:00.000Z",
      "2026-04-04T15:30:00.000Z 2026-04-04T16:30:00.000Z",
    ]);
  },
);

t.test("yesterday has its own length, also if it has 23 hours", async (t) => {
  const days = new Days("Europe/Berlin");
  const changed = Date.UTC(2026, 2, 30, 12);
  t.equal(days.today(changed), Date.UTC(2026, 2, 29, 22));
  t.equal(days.yesterday(changed), Date.UTC(2026, 2, 28, 23));
});
