import t from "tap";
import { type ErrorWords, errorObject } from "../../src/core/fault.ts";
import { bearer, eventBytes, fixedPaths, PING, post } from "../../src/core/protocol-parts.ts";
import { Frame } from "../../src/wire/frame.ts";
import { asCount, asList, asObject, atMost, counts, defined, entryOf, textOf } from "../../src/wire/values.ts";

t.test("a count is a whole number of 0 or more and nothing else", async (t) => {
  for (const count of [0, 1, 2 ** 53 - 1]) t.equal(asCount(count), count);
  for (const other of [-1, 0.5, Number.NaN, 2 ** 53, "3", null, undefined, true, [1]])
    t.equal(asCount(other), undefined);
});

t.test("only an object is an object, and only a list is a list", async (t) => {
  for (const other of [null, undefined, [], "text", 1]) t.equal(asObject(other), undefined);
  t.same(asObject({ a: 1 }), { a: 1 });
  t.same([asList({}), asList("text"), asList([1])], [[], [], [1]]);
});

t.test("counts keeps members that are counts and is undefined without any", async (t) => {
  t.same(counts({ searches: 2, share: 0.5, name: "x", none: 0 }), { searches: 2, none: 0 });
  t.equal(counts({ name: "x" }), undefined);
  t.equal(counts(null), undefined);
});

t.test("a part is never more than its whole, where both are known", async (t) => {
  t.equal(atMost(5, 3), 3);
  t.equal(atMost(2, 3), 2);
  t.equal(atMost(5, undefined), 5);
  t.equal(atMost(undefined, 3), undefined);
});

t.test("defined leaves undefined members out and keeps 0, null and empty text", async (t) => {
  t.same(Object.keys(defined({ a: undefined, b: 0, c: null, d: "" })), ["b", "c", "d"]);
});

t.test("the text of a content is the content itself or the text of its parts", async (t) => {
  t.equal(textOf("plain"), "plain");
  t.equal(textOf([{ type: "text", text: "one" }, { type: "image_url" }, "two"]), "one\ntwo");
  t.equal(textOf(null), "");
});

t.test("a credential is shown as a bearer token", async (t) => {
  t.same(bearer("secret"), ["authorization", "Bearer secret"]);
});

t.test("an event reads back as what was written", async (t) => {
  const named = new Frame("event", eventBytes({ text: "a\n\nb" }, "note"));
  t.same([named.event, named.json()], ["note", { text: "a\n\nb" }]);
  t.equal(eventBytes({ a: 1 }).toString(), 'data: {"a":1}\n\n');
});

t.test("a ping is a comment: no event, no data", async (t) => {
  const frame = new Frame("event", PING);
  t.same([frame.event, frame.text], [undefined, undefined]);
});

t.test("an operation is a POST of JSON that streams when asked, unless told otherwise", async (t) => {
  const plain = post("chat", "/chat");
  t.match(plain, { name: "chat", method: "POST", body: "json", streams: "asked", framing: "sse", generates: true });
  t.equal(plain.upstream("any"), "/chat");
  t.match(post("count", "/count", { streams: false, generates: false }), { streams: false, generates: false });
});

t.test("each fixed path stands for its operation, and no other path for any", async (t) => {
  const { paths, locate } = fixedPaths({ "/v1/a": post("a", "/a"), "/v1/b": post("b", "/b") });
  t.same(paths, ["/v1/a", "/v1/b"]);
  t.equal(locate("/v1/b", "", new URLSearchParams())?.operation.name, "b");
  for (const path of ["/v1", "/v1/a/", "constructor"]) t.equal(locate(path, "", new URLSearchParams()), undefined);
});

t.test("an error object has a protocol's type, its code where it has one, else the gateway's", async (t) => {
  const type = new Proxy({}, { get: (_, kind) => `${String(kind)}_error` }) as ErrorWords["type"];
  const words: ErrorWords = { type, code: { rate_limit: "slow_down" } };
  t.same(errorObject({ status: 429, kind: "rate_limit", code: "ours", message: "Wait." }, words), {
    message: "Wait.",
    type: "rate_limit_error",
    param: null,
    code: "slow_down",
  });
  t.same(errorObject({ status: 400, kind: "invalid", code: "ours", message: "No.", param: "n" }, words), {
    message: "No.",
    type: "invalid_error",
    param: "n",
    code: "ours",
  });
  const passed = { status: 429, kind: "rate_limit", code: "ours", ownCode: "theirs", message: "Wait." } as const;
  t.equal(errorObject(passed, words).code, "slow_down", "the protocol's own word comes first");
  t.equal(errorObject({ ...passed, kind: "invalid" }, words).code, "theirs");
});

t.test("a table has only its own entries", async (t) => {
  const table = { known: 1 };
  t.equal(entryOf(table, "known"), 1);
  for (const word of ["unknown", "constructor", "__proto__", undefined]) t.equal(entryOf(table, word), undefined);
});
