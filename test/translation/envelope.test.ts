import t from "tap";
import { Envelopes } from "../../src/translation/envelope.ts";
import type { Opaque } from "../../src/translation/events.ts";
import { gathered } from "../support/gathered.ts";

const envelopes = new Envelopes("a secret of the tests, long enough");
const opaque = (data: string, more: Partial<Opaque> = {}): Opaque => ({
  protocol: "p",
  kind: "signature",
  data,
  ...more,
});
const BASE64 = Buffer.from(Array.from({ length: 3000 }, (_, i) => (i * 7) % 256)).toString("base64");

t.test("sealed content is restored unchanged", async (t) => {
  const all = [
    opaque(BASE64, { account: "one", model: "m-1", on: { call: "call_1" } }),
    opaque(BASE64, { account: "one", model: "m-1", on: { media: "media:1" } }),
    opaque(Buffer.from(BASE64, "base64").toString("base64url"), { account: "one", on: "text" }),
    opaque("placed", { on: "reasoning" }),
    opaque("placed", { on: "reasoning", textBehind: 12 }),
    opaque("EqQBCgIYAhIM/+==", { extra: { parts: [1, "two", null] } }),
    opaque(""),
    opaque("half a pair \ud800 and ü 🙂\n"),
    opaque("gAAAAABo", { kind: "encrypted", model: "m" }),
  ];
  for (const one of all) {
    const envelope = envelopes.seal(one);
    t.match(envelope, /^gw1state(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
    t.ok(envelopes.isEnvelope(envelope));
    t.same(envelopes.open(envelope), one);
  }
});

t.test(
  "an envelope can be opened in either alphabet, padded or not, as clients encode the bytes that they read",
  async (t) => {
    for (let length = 0; length < 40; length++) {
      const one = opaque("\u00ff".repeat(length), { account: "one" });
      const bytes = Buffer.from(envelopes.seal(one), "base64");
      const url = bytes.toString("base64url");
      const padded = url.padEnd(Math.ceil(url.length / 4) * 4, "=");
      for (const text of [bytes.toString("base64"), bytes.toString("base64").replace(/=+$/, ""), url, padded]) {
        t.ok(envelopes.isEnvelope(text));
        t.ok(envelopes.mayBeIn([Buffer.from(JSON.stringify({ state: text }))]));
        t.same(envelopes.open(text), one);
      }
    }
  },
);

t.test("the last account's state is found behind envelopes that name none, as those of citations", async (t) => {
  const state = opaque("x", { account: "one", model: "m" });
  const sealed = [opaque("y", { account: "two" }), state, opaque(""), opaque("z")].map((each) => envelopes.seal(each));
  const last = (list: readonly string[]) => envelopes.openLast([Buffer.from(JSON.stringify(list))]);
  t.same(last(sealed), state);
  t.equal(last(sealed.slice(2)), undefined);
  t.equal(last([...sealed, "gw1stateAAAA"]), undefined, "an invalid one ends the search");
  const behind = (count: number) => last([...sealed.slice(0, 2), ...Array(count).fill(sealed[3])]);
  t.same([behind(400), behind(600)], [state, undefined], "the search ends after some hundred of them");
});

t.test("an envelope is hardly longer than the base64 that it contains", async (t) => {
  t.ok(envelopes.seal(opaque(BASE64, { account: "one", model: "m" })).length < BASE64.length + 200);
});

t.test("the same content gives the same envelope, other content another", async (t) => {
  t.equal(envelopes.seal(opaque("a")), envelopes.seal(opaque("a")));
  t.not(envelopes.seal(opaque("a")), envelopes.seal(opaque("a", { account: "x" })));
});

t.test("nothing can be read from an envelope", async (t) => {
  const envelope = envelopes.seal(opaque("data", { account: "secret-account" }));
  t.notMatch(Buffer.from(envelope, "base64").toString("latin1"), /secret-account/);
});

gathered(
  t,
  "what is not of ours is refused: cut, changed anywhere, of another key, or no envelope at all",
  async (t) => {
    const envelope = envelopes.seal(opaque("some data", { account: "one" })).replace(/=+$/, "");
    const refused = (text: string, what: string) =>
      t.throws(
        () => envelopes.open(text),
        { code: "invalid_field", status: 400, message: /opaque reasoning state/ },
        what,
      );
    for (let i = 0; i < envelope.length; i++) {
      refused(envelope.slice(0, i), `cut at ${i}`);
      refused(`${envelope.slice(0, i)}${envelope[i] === "A" ? "B" : "A"}${envelope.slice(i + 1)}`, `changed at ${i}`);
    }
    refused(`${envelope}A`, "with more behind");
    refused(new Envelopes("another secret, as long as that").seal(opaque("some data")), "of another key");
    for (const text of [
      "gw1state",
      "gw1stateé",
      "gw1statea b",
      "",
      `gw1state${"A".repeat(20_000_000)}`,
      `${envelope}${"=".repeat(3)}`,
    ])
      refused(text, text.slice(0, 12));
  },
);

t.test("the same secret opens what an earlier process sealed, and without one each process has its own", async (t) => {
  const [one, other] = [new Envelopes("the very same secret"), new Envelopes("the very same secret")];
  t.same(other.open(one.seal(opaque("x"))), opaque("x"));
  const mine = new Envelopes().seal(opaque("x"));
  t.throws(() => new Envelopes().open(mine), { code: "invalid_field" });
});

t.test("content of many megabytes is refused", async (t) => {
  t.throws(() => envelopes.seal(opaque("x".repeat(17 << 20))), { code: "upstream_invalid" });
});

t.test("state stored for a call is found by the caller who received it, for an hour", async (t) => {
  let now = 0;
  const keeping = new Envelopes("a secret of the tests", () => now);
  keeping.remember("alice", "call_1", opaque("a"));
  t.same(keeping.recall("alice", "call_1"), opaque("a"));
  t.equal(keeping.recall("bob", "call_1"), undefined);
  t.equal(keeping.recall("alice", "call_2"), undefined);
  keeping.remember("alice", "call_1", opaque("b"));
  t.same(keeping.recall("alice", "call_1"), opaque("b"), "a later one replaces it");
  now = 3_599_999;
  t.same(keeping.recall("alice", "call_1"), opaque("b"));
  now = 3_600_000;
  t.equal(keeping.recall("alice", "call_1"), undefined);
});

gathered(t, "an envelope among pieces of JSON is seen, wherever they are cut", async (t) => {
  const json = Buffer.from(JSON.stringify({ a: "x", signature: envelopes.seal(opaque("data")), b: [1] }));
  t.ok(envelopes.mayBeIn([json]));
  for (let i = 0; i <= json.length; i++)
    t.ok(envelopes.mayBeIn([json.subarray(0, i), json.subarray(i)]), `split at ${i}`);
  for (let length = 1; length < 20; length++) {
    const count = Math.ceil(json.length / length);
    const pieces = Array.from({ length: count }, (_, i) => json.subarray(i * length, (i + 1) * length));
    t.ok(envelopes.mayBeIn(pieces), `pieces of ${length}`);
  }
  t.notOk(envelopes.mayBeIn([]));
  t.notOk(envelopes.mayBeIn([Buffer.from('{"a":"x gw1 y","gw1":1}')]));
});

t.test("an envelope is found in a long body of text or of an image, wherever it is", async (t) => {
  for (const filling of ['a text of "words" ', "QUJDREVGR0g"]) {
    for (const before of [0, 32_700, 32_764, 32_766, 32_768, 65_536, 99_990]) {
      const body = Buffer.from(filling.repeat(100_000 / filling.length));
      t.notOk(envelopes.mayBeIn([body]));
      body.write('"gw1stateabc"', Math.min(before, body.length - 13));
      t.ok(envelopes.mayBeIn([body]), `${filling} ${before}`);
    }
  }
});

t.test("an envelope opens for its owner alone, and is different for two owners", async (t) => {
  const mine = envelopes.seal(opaque("x"), "key one");
  t.same(envelopes.open(mine, ["key one"]), opaque("x"));
  t.same(envelopes.open(mine, ["all", "group g", "key one"]), opaque("x"));
  for (const owners of [["key two"], ["all", "key two"], [""], [], undefined])
    t.throws(() => envelopes.open(mine, owners), { code: "invalid_field" }, `${owners}`);
  t.equal(mine, envelopes.seal(opaque("x"), "key one"), "the same each time");
  const nonce = (envelope: string) => Buffer.from(envelope, "base64").subarray(6, 18).toString("hex");
  t.not(
    nonce(mine),
    nonce(envelopes.seal(opaque("x"), "key two")),
    "one nonce for two owners would give the secret away",
  );
});
