import t from "tap";
import { headerObject, privateCacheControl } from "../../src/upstream/pass-meter.ts";
import { HeaderList } from "../../src/wire/headers.ts";

t.test("header lines become an object, in which a repeated name has all its values", async (t) => {
  t.same(headerObject(new HeaderList(["A", "1", "b", "2", "a", "3", "a", "4"])), { a: ["1", "3", "4"], b: "2" });
});

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
