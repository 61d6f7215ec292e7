import t from "tap";
import { plural } from "../../src/core/plural.ts";

t.test("one thing is singular, and any other number of things plural", async (t) => {
  t.same(
    [0, 1, 2].map((count) => `${count} ${plural(count, "request")}`),
    ["0 requests", "1 request", "2 requests"],
  );
});
