import t from "tap";
import type { FeatureUse } from "../../src/translation/conversation.ts";
import { Fields, objectFields } from "../../src/translation/fields.ts";
import { RawJson } from "../../src/wire/exact.ts";
import { runLinear } from "../support/linear-work.ts";

t.test("members are read by name, and unread ones are declared, within objects too", async (t) => {
  const uses: FeatureUse[] = [];
  const body = new Fields({ a: "x", b: 1, c: true, d: null, e: { f: 1 }, g: [] }, "", uses);
  t.equal(body.text("a"), "x");
  t.equal(body.number("b"), 1);
  t.equal(body.flag("c"), true);
  t.equal(body.text("d"), undefined);
  t.equal(body.object("e")?.path("f"), "e.f");
  body.declareUnread();
  t.same(Object.fromEntries(body.unreadMembers()), { d: null, g: [] });
  t.same(uses, [
    { feature: "other", path: "g" },
    { feature: "other", path: "e.f" },
  ]);
});

t.test("a member that is skipped is kept, and declared as its feature", async (t) => {
  const uses: FeatureUse[] = [];
  const body = new Fields({ a: 1, b: 2, c: null }, "x.0", uses);
  body.ignore("a", "prediction");
  body.ignore("b");
  body.ignore("c", "prediction");
  body.declareUnread();
  t.same(Object.fromEntries(body.unreadMembers()), { a: 1, b: 2, c: null });
  t.same(uses, [{ feature: "prediction", path: "x.0.a" }]);
});

t.test("a member of another type is refused with its path", async (t) => {
  const body = new Fields({ a: 1, b: "x", raw: new RawJson("{}") }, "x.0", []);
  const refused = (param: string) => ({ code: "invalid_field", param });
  t.throws(() => body.text("a"), refused("x.0.a"));
  t.throws(() => body.flag("a"), refused("x.0.a"));
  t.throws(() => body.number("b"), refused("x.0.b"));
  t.throws(() => body.list("b"), refused("x.0.b"));
  t.throws(() => body.object("b"), refused("x.0.b"));
  t.throws(() => body.object("raw"), refused("x.0.raw"));
  t.throws(() => objectFields([], "x.1", []), refused("x.1"));
});

t.test("a required member, and an enum", async (t) => {
  const body = new Fields({ a: "x", mode: "loud", none: null }, "x", []);
  t.equal(body.required("a"), "x");
  t.throws(() => body.required("none"), { code: "invalid_field", param: "x.none" });
  t.equal(body.oneOf("mode", ["quiet", "loud"]), "loud");
  t.equal(body.oneOf("none", ["quiet"]), undefined);
  t.throws(() => body.oneOf("mode", ["quiet"]), { code: "invalid_field", param: "x.mode", message: /quiet/ });
});

t.test("a default value is not declared, another value is, and so can the object itself", async (t) => {
  const uses: FeatureUse[] = [];
  const body = new Fields({ async: false, size: "large" }, "tools.0", uses);
  body.declareSelf("tools", "Ask otherwise.");
  body.ignoreDefaults({ async: [false], size: ["medium"], absent: [undefined] });
  body.declareUnread();
  t.same(Object.fromEntries(body.unreadMembers()), { async: false, size: "large" });
  t.same(uses, [
    { feature: "tools", path: "tools.0", hint: "Ask otherwise." },
    { feature: "other", path: "tools.0.size" },
  ]);
});

t.test("a member named like a property of Object.prototype is a plain member", async (t) => {
  const of = JSON.parse('{"__proto__":{"a":1},"constructor":2}') as Record<string, unknown>;
  t.equal(
    JSON.stringify(Object.fromEntries(new Fields(of, "", []).unreadMembers())),
    '{"__proto__":{"a":1},"constructor":2}',
  );
});

t.test("an object of very many members is read, and declared, in linear time", async (t) => {
  const uses: FeatureUse[] = [];
  const names = Array.from({ length: 400_000 }, (_, n) => `label-${n}`);
  const body = new Fields(Object.fromEntries(names.map((name) => [name, name])), "metadata", uses);
  for (const name of names.slice(1)) body.required(name);
  runLinear(() => body.declareUnread());
  t.same(uses, [{ feature: "other", path: "metadata.label-0" }]);
  t.same(body.unreadMembers(), [["label-0", "label-0"]]);
});
