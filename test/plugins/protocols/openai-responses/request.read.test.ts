import t from "tap";
import {
  leave,
  leaveUsual,
  need,
  oneOf,
  peek,
  Reading,
} from "../../../../plugins/protocols/openai-responses/request.read.ts";

const reading = (native = false) =>
  new Reading({ native, open: (data, kind) => ({ protocol: "openai-responses", kind, data }) });

t.test("what is left says nothing, what nobody knows is said", async (t) => {
  const read = reading();
  const fields = read.fields({ id: "x", async: false, strange: 1, nothing: null }, "tools.0");
  leave(fields, "id");
  leaveUsual(fields, { async: [false] });
  t.same(fields.rest(), { id: "x", async: false, strange: 1, nothing: null });
  t.same(read.uses, [{ feature: "other", path: "tools.0.strange" }]);
});

t.test("an unusual value is not left", async (t) => {
  const read = reading();
  const fields = read.fields({ async: true }, "tools.0");
  leaveUsual(fields, { async: [false] });
  fields.rest();
  t.same(read.uses, [{ feature: "other", path: "tools.0.async" }]);
});

t.test("a member that must be there, and one of some words", async (t) => {
  const strict = reading();
  const fields = strict.fields({ name: "n", mode: "loud", none: null }, "x");
  t.equal(need(fields, "name"), "n");
  t.equal(peek(fields, "none"), undefined);
  t.throws(() => need(fields, "none"), { code: "invalid_field", param: "x.none" });
  t.throws(() => oneOf(strict, fields, "mode", ["quiet"]), { code: "invalid_field", param: "x.mode" });
  t.equal(oneOf(strict, fields, "none", ["quiet"]), undefined);
});

t.test("a word that only the vendor knows stays where the request becomes the same again", async (t) => {
  const same = reading(true);
  const fields = same.fields({ mode: "loud" }, "x");
  t.equal(oneOf(same, fields, "mode", ["quiet"]), undefined);
  t.same(fields.rest(), { mode: "loud" });
});

t.test("native forms are kept only where they are asked for", async (t) => {
  t.same(reading().native(1), {});
  t.same(reading(true).native(1), { native: 1 });
});

t.test("opaque state is opened as encrypted", async (t) => {
  t.same(reading().open("gAAAA"), { protocol: "openai-responses", kind: "encrypted", data: "gAAAA" });
});
