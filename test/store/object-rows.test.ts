import t from "tap";
import { rowToObject } from "../../src/store/object-rows.ts";

t.test("a row without group, model and credential is an object without", async (t) => {
  const object = { id: "1", provider: "up", key: "k" };
  t.same(rowToObject({ ...object, group: null, model: null, credential: null }), object);
  const full = { ...object, group: "acme", model: "m", credential: "KEY" };
  t.same(rowToObject({ ...full, time: 1 }), full);
});
