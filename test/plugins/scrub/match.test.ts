import t from "tap";
import type { Mark } from "../../../plugins/scrub/catalogue.ts";
import { MarkNames, MarkTree, ModelMarks, markTableFor } from "../../../plugins/scrub/match.ts";
import { scan } from "../../../src/wire/json.ts";

const mark = (pattern: string): Mark => ({
  owner: "o",
  where: "body",
  pattern,
  kinds: undefined,
  quiet: false,
});
const named = (...patterns: string[]) => patterns.map((pattern) => [pattern, mark(pattern)] as const);

t.test("an exact name takes precedence over a prefix, a longer prefix over a shorter one", async (t) => {
  const names = new MarkNames(named("abc-*", "abc-def-*", "abc-def-g"), new Set(["abc-def-free"]));
  const find = (name: string) => names.find(name)?.pattern;
  t.equal(find("abc-def-g"), "abc-def-g");
  t.equal(find("abc-def-x"), "abc-def-*");
  t.equal(find("abc-x"), "abc-*");
  t.equal(find("abc-def-free"), undefined, "an allowed name is not a mark");
  for (const name of ["", "a", "ab", "abc", "abc-", "abd-x", "xabc-x"]) t.equal(find(name), undefined, name);
});

t.test("marks are found and removed at any depth", async (t) => {
  const level = new MarkTree(named("top", "a.b.c", "list[].x", "list[].y.z", "pre_*"), new Set());
  const json = Buffer.from(
    '{"pre_1":0,"a":{"b":{"c":[1],"d":2},"c":3},"list":[{"x":1,"k":[{"x":1}]}, 7 ,"]{,",{"y":{"z":"\\"]","w":1}},[{"x":1}]],"top":null}',
  );
  const { found, bytes } = level.inObject(json, () => true);
  t.same(
    found.map(({ name }) => name),
    ["pre_1", "a.b.c", "list[].x", "list[].y.z", "top"],
  );
  t.equal(bytes.toString(), '{"a":{"b":{"d":2},"c":3},"list":[{"k":[{"x":1}]}, 7 ,"]{,",{"y":{"w":1}},[{"x":1}]]}');
  const none = level.search(scan(json), json, () => false);
  t.equal(none.edits.length, 0, "found but not removed");
  t.equal(none.found.length, 5);
});

t.test("a path tolerates values of another shape", async (t) => {
  const level = new MarkTree(named("a.b", "list[].x"), new Set());
  for (const json of [
    '{"a":[{"b":1}],"list":{"x":1}}',
    '{"a":"b","list":[]}',
    '{"list":[ ]}',
    '{"list":[[],{}]}',
    "[]",
    '"a"',
  ])
    t.equal(level.inObject(Buffer.from(json), () => true).bytes.toString(), json);
});

t.test("the marks of a model's name are removed one by one", async (t) => {
  const marks = new ModelMarks([mark("via/*"), mark("*:free")]);
  t.equal(marks.removeOne("via/x:free")?.name, "x:free");
  t.equal(marks.removeOne("x:free")?.name, "x");
  for (const name of ["x", "via/", ":free", "a/via/x", "x:freed"]) t.equal(marks.removeOne(name), undefined, name);
});

t.test("a table has the catalogue as its protocol does", async (t) => {
  const chat = markTableFor("openai-chat", new Set());
  t.equal(chat.headers.find("x-portkey-config")?.owner, "Portkey");
  t.equal(chat.answerHeaders.find("x-portkey-config")?.owner, "Portkey");
  t.equal(chat.query.find("api-version")?.owner, "Azure OpenAI");
  t.ok(chat.answerNames.some((name) => '"native_finish_reason":null'.startsWith(name.toString())));
});

t.test("a protocol's table is built once for each allow list", async (t) => {
  const table = markTableFor("openai-chat", new Set(["provider"]));
  t.equal(markTableFor("openai-chat", new Set(["provider"])), table);
  for (const other of [markTableFor("openai-chat", new Set()), markTableFor("gemini", new Set(["provider"]))])
    t.not(other, table);
  t.ok(markTableFor("openai-chat", new Set()).body.inObject(Buffer.from('{"provider":{}}'), () => true).found.length);
  t.strictSame(table.body.inObject(Buffer.from('{"provider":{}}'), () => true).found, []);
});
