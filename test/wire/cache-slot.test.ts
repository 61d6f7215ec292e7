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

t.test("names and values that occur together do not all share a slot", async (t) => {
  const usual = [
    "content-type",
    "content-length",
    "connection",
    "date",
    "server",
    "x-request-id",
    "cache-control",
    "via",
  ];
  t.ok(new Set(usual.map((text) => cacheSlot(text, 1024))).size >= 7);
});
