import t from "tap";
import { HeaderList } from "../../src/wire/headers.ts";
import { parseRetryAfter } from "../../src/wire/retry-after.ts";

const said = (...lines: string[]) => parseRetryAfter(new HeaderList(lines));

t.test("a wait is read in milliseconds, in seconds or as a date; the exact one counts", async (t) => {
  t.equal(said("retry-after", "7"), 7);
  t.equal(said("retry-after", "1.5"), 1.5);
  t.equal(said("retry-after", "7", "retry-after-ms", "250"), 0.25);
  t.equal(said("retry-after-ms", "soon", "retry-after", "3"), 3);
  t.equal(said("retry-after-ms", "Infinity", "retry-after", "3"), 3);
  t.equal(said("retry-after", "9".repeat(400)), Number.MAX_SAFE_INTEGER);
  for (const none of [[], ["retry-after", "soon"], ["retry-after", "-4"], ["retry-after", ""]])
    t.equal(said(...none), undefined, none.join());
});

t.test(
  "a date is relative to the response's own date, or to the clock where there is none; the past is now",
  async (t) => {
    const at = (seconds: number) => new Date(Date.UTC(2020, 0, 1) + seconds * 1000).toUTCString();
    t.equal(said("date", at(0), "retry-after", at(90)), 90);
    t.equal(said("date", at(100), "retry-after", at(90)), 0);
    t.equal(said("retry-after", at(90)), 0);
    const soon = said("retry-after", new Date(Date.now() + 60_000).toUTCString()) ?? 0;
    t.ok(soon > 50 && soon <= 60, `${soon} s`);
  },
);
