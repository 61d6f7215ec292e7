import t from "tap";
import { merged, Writing } from "../../../../plugins/protocols/openai-responses/request.write.ts";
import type { EncodeContext } from "../../../../src/translation/codec.ts";
import { INPUT, plain, read } from "./request.asking.ts";

const terms = { change: () => {} } as unknown as EncodeContext;

t.test("members that are not there leave the rest alone", async (t) => {
  t.same(merged({ a: null, b: 1 }, { a: undefined, b: 2, c: 3 }), { a: null, b: 2, c: 3 });
  t.same(merged(undefined, { a: undefined }), {});
});

t.test("native forms are read only where they are this protocol's own", async (t) => {
  const mine = new Writing(read(INPUT, { native: true }), terms);
  const other = new Writing(plain({ native: {} }), terms);
  const bare = new Writing(read(INPUT), terms);
  t.same([mine.same, other.same, bare.same], [true, false, false]);
  t.same([mine.native({ native: 1 }), other.native({ native: 1 })], [1, undefined]);
});

t.test("a feature has the path it was said at", async (t) => {
  const writing = new Writing(plain({ uses: [{ feature: "user", path: "metadata.user_id" }] }), terms);
  t.equal(writing.path("user"), "metadata.user_id");
  t.equal(writing.path("tier"), "tier");
});

t.test("the same long label always has the same hash", async (t) => {
  const writing = new Writing(plain(), terms);
  const label = "x".repeat(65);
  t.equal(writing.label(label, "user"), writing.label(label, "user"));
  t.not(writing.label(label, "user"), writing.label(`${label}y`, "user"));
  t.equal(writing.label("x".repeat(64), "user"), "x".repeat(64));
});
