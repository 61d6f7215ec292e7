import t from "tap";
import { valueAt } from "../../../plugins/usage/value-at.ts";

t.test("a path leads through members and lists, or to nothing", async (t) => {
  const json = { input: [{ text: "a" }, null] };
  t.equal(valueAt(json, ["input", 0, "text"]), "a");
  t.equal(valueAt(json, []), json);
  t.equal(valueAt(json, ["input", 1, "text"]), undefined);
  t.equal(valueAt(json, ["other", 0, "text"]), undefined);
});
