import t from "tap";
import { privateCacheControl } from "../../src/upstream/pass-meter.ts";

t.test("a provider's caching headers are limited to one key", async (t) => {
  for (const [said, told] of [
    [undefined, "private"],
    ["public, max-age=60, s-maxage=600", "private, max-age=60"],
    ["Public,immutable", "private, immutable"],
    ["no-store", "private, no-store"],
    ['private="x", no-cache', "private, no-cache"],
  ] as const)
    t.equal(privateCacheControl(said), told);
});
