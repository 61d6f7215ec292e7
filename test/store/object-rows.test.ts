import t from "tap";
import { objectOf } from "../../src/store/object-rows.ts";

t.test("a row without group and model is an object without", async (t) => {
  const object = { id: "1", provider: "up", key: "k" };
  t.same(objectOf({ ...object, group: null, model: null }), object);
  t.same(objectOf({ ...object, group: "acme", model: "m", time: 1 }), { ...object, group: "acme", model: "m" });
});
