import t from "tap";
import { headerObject } from "../../src/upstream/pass-meter.ts";
import { HeaderList } from "../../src/wire/headers.ts";

t.test("header lines become an object, in which a name that came twice has all its values", async (t) => {
  t.same(headerObject(new HeaderList(["A", "1", "b", "2", "a", "3", "a", "4"])), { a: ["1", "3", "4"], b: "2" });
});
