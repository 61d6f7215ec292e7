import t from "tap";
import { rowToObject } from "../../src/store/object-rows.ts";

t.test("a row without group and model is an object without", async (t) => {
  const object = { id: "1", provider: "up", key: "k" };
  t.same(rowToObject({ ...object, group: null, model: null }), object);
  t.same(rowToObject({ ...object, group: "acme", model: "m", time: 1 }), { ...object, group: "acme", model: "m" });
});
