import t from "tap";
import { cacheSlot } from "../../src/wire/cache-slot.ts";

t.test("a text always has the same slot, and a valid one", async (t) => {
  const texts = ["", "a", "content-type", "application/json", "ü", "\ud800", "x".repeat(100_000)];
  for (const text of texts)
    for (const places of [1, 2, 256, 1024]) {
      const place = cacheSlot(text, places);
      t.ok(Number.isInteger(place) && place >= 0 && place < places, `${text.slice(0, 20)} has ${place} of ${places}`);
      t.equal(cacheSlot(`${text}`, places), place);
    }
});

t.test("the names of headers that vendors send together have slots of their own", async (t) => {
  const families = [
    ["content-type", "content-length", "connection", "date", "server", "x-request-id", "cache-control", "via", "vary"],
    ["limit", "remaining", "reset"].flatMap((what) =>
      ["requests", "tokens"].map((counted) => `x-ratelimit-${what}-${counted}`),
    ),
    ["requests", "tokens", "input-tokens", "output-tokens"].flatMap((counted) =>
      ["limit", "remaining", "reset"].map((what) => `anthropic-ratelimit-${counted}-${what}`),
    ),
  ];
  const names = families.flat();
  t.equal(new Set(names.map((name) => cacheSlot(name, 4096))).size, names.length);
});
