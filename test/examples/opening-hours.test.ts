import t from "tap";
import { say, startExample } from "./example.ts";

/** A time of the day, so many minutes from now. */
const away = (minutes: number): string => new Date(Date.now() + minutes * 60_000).toISOString().slice(11, 16);

t.test("requests are accepted in the configured hours, also over midnight", async (t) => {
  const open = await startExample(t, "opening-hours", { open: away(-60), close: away(60) });
  t.equal((await say(open, "hi")).status, 200);
  const later = away(60);
  const closed = await startExample(t, "opening-hours", { open: later, close: away(120) });
  const refusal = await say(closed, "hi");
  t.equal(refusal.status, 403);
  t.match(await refusal.text(), new RegExp(`taken from ${later} to `));
});

t.test("a zone that does not exist is refused at start, with the file", async (t) => {
  const started = startExample(t, "opening-hours", { open: "08:00", close: "17:00", zone: "Mars/Olympus" });
  await t.rejects(started, {
    message: /opening-hours\.ts:\d+:\d+ error: the constructor of class OpeningHours threw: Invalid time zone/,
  });
});
