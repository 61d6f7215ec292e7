import t from "tap";
import { breakpointOf, wholeCacheOf } from "../../../../plugins/protocols/openai/cache.ts";

t.test("a mark holds as long as was asked, in the two times that the vendor has", async (t) => {
  const marks = [{}, { ttl: "5m" }, { ttl: "30m" }, { ttl: "1h" }, { ttl: "12h" }] as const;
  t.same(marks.map(breakpointOf), [
    { mode: "explicit" },
    { mode: "explicit" },
    { mode: "explicit", ttl: "30m" },
    { mode: "explicit", ttl: "12h" },
    { mode: "explicit", ttl: "12h" },
  ]);
  t.same(marks.map(wholeCacheOf), [
    undefined,
    undefined,
    { mode: "implicit", ttl: "30m" },
    { mode: "implicit", ttl: "12h" },
    { mode: "implicit", ttl: "12h" },
  ]);
});
