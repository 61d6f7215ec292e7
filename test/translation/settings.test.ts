import t from "tap";
import type { Facts } from "../../src/core/marketplace.ts";
import type { EncodeContext } from "../../src/translation/codec.ts";
import type { Conversation, FeatureUse } from "../../src/translation/conversation.ts";
import { Fields } from "../../src/translation/fields.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { readSettings, type Setting, settingFields, writeSettings } from "../../src/translation/settings.ts";
import { NestedJson } from "../../src/wire/nested.ts";
import type { JsonObject } from "../../src/wire/values.ts";

const TABLE: readonly Setting[] = [
  { path: "temperature", field: "temperature", feature: "temperature", type: "number", range: [0, 2], sampling: true },
  { path: "max_new", olderNames: ["max"], field: "maxTokens", feature: "max_tokens", type: "number" },
  {
    path: "config.stop",
    field: "stop",
    feature: "stop",
    type: "texts",
    maxLength: 2,
  },
  {
    path: "config.effort",
    field: "reasoning.effort",
    feature: "reasoning_effort",
    type: "text",
    valueMap: { LITTLE: "low", MUCH: "high" },
  },
  { path: "store", field: "store", type: "flag" },
  { path: "user_id", field: "user", type: "text", only: "encode" },
  { path: "account", unless: "owner", field: "user", type: "text", only: "decode" },
  { path: "verbosity", field: "verbosity", type: "text", valueMap: { short: "low" }, dropsUnknown: true },
  { path: "tier", field: "tier", type: "text", encodeMap: { default: "usual", standard: "usual" } },
  { path: "n", field: "choices", type: "number", writtenIf: (choices: number) => choices !== 1 },
  { path: "image", field: "image", feature: "image_out", type: "object", members: { aspect: "shape", size: "scale" } },
];

function read(body: JsonObject): { conversation: Conversation; uses: FeatureUse[]; untaken: unknown[] } {
  const uses: FeatureUse[] = [];
  const conversation: Conversation = { protocol: "x", task: "generate", stream: false, turns: [], tools: [], uses };
  const fields = new Fields(body, "", uses);
  readSettings(TABLE, fields, conversation);
  fields.declareUnread();
  return { conversation, uses, untaken: fields.unreadMembers() };
}

function write(conversation: Partial<Conversation>, facts: Facts = {}) {
  const dropped: string[] = [];
  const context: EncodeContext = {
    model: "m",
    facts,
    names: new ToolNames(),
    nested: new NestedJson(),
    drop: (path) => void dropped.push(path),
    change: () => {},
    refuse: (path, why) => {
      throw new Error(`${path}: ${why}`);
    },
  };
  const whole = { protocol: "x", task: "generate", stream: false, turns: [], tools: [], uses: [], ...conversation };
  return { body: writeSettings(TABLE, whole as Conversation, context), dropped };
}

t.test("what is decoded by a row is encoded by it", async (t) => {
  const body = { temperature: 0.5, max_new: 9, config: { stop: ["a"], effort: "MUCH" }, store: false };
  const { conversation, uses, untaken } = read(body);
  t.match(conversation, { temperature: 0.5, maxTokens: 9, stop: ["a"], reasoning: { effort: "high" }, store: false });
  t.same(
    uses.map(({ feature, path }) => `${feature} ${path}`),
    ["temperature temperature", "max_tokens max_new", "stop config.stop", "reasoning_effort config.effort"],
  );
  t.same(untaken, []);
  t.same(write(conversation).body, body);
});

t.test("an older name is decoded, encoded as the newer one, and ignored beside it", async (t) => {
  t.equal(read({ max: 3 }).conversation.maxTokens, 3);
  t.same(write(read({ max: 3 }).conversation).body, { max_new: 3 });
  const both = read({ max: 3, max_new: 4 });
  t.equal(both.conversation.maxTokens, 4);
  t.same(both.uses, [{ feature: "max_tokens", path: "max_new" }]);
});

t.test("a default is not declared, and an unknown member is", async (t) => {
  t.same(read({ config: { stop: [], other: 1 } }).uses, [{ feature: "other", path: "config.other" }]);
  t.same(read({ temperature: null }).uses, []);
});

t.test("a wrong type and an unknown value are refused with their path", async (t) => {
  t.throws(() => read({ temperature: "warm" }), { message: /^temperature must be a number/ });
  t.throws(() => read({ config: { stop: [1] } }), { message: /^config\.stop/ });
  t.throws(() => read({ config: { effort: "SOME" } }), { message: /LITTLE, MUCH/ });
});

t.test("what the vendor does not accept is refused or dropped with the client's own path", async (t) => {
  const uses: FeatureUse[] = [{ feature: "temperature", path: "generation.temp" }];
  t.throws(() => write({ temperature: 3, uses }), /^generation\.temp: It must be between 0 and 2 for this provider/);
  t.throws(() => write({ stop: ["a", "b", "c"] }), /accepts at most 2/);
  t.same(write({ temperature: 1, uses }, { sampling: false }), { body: {}, dropped: ["generation.temp"] });
  t.same(
    write({ temperature: 3, uses }, { sampling: false }),
    { body: {}, dropped: ["generation.temp"] },
    "whatever it is",
  );
  t.same(write({ reasoning: { effort: "max" } }), { body: {}, dropped: ["reasoning_effort"] });
});

t.test("a row of one direction is neither decoded nor encoded in the other", async (t) => {
  t.same(write(read({ account: "a" }).conversation).body, { user_id: "a" });
  t.equal(read({ user_id: "a" }).conversation.user, undefined);
});

t.test("a member is left unread beside the one that excludes it, and with a value that is not known", async (t) => {
  const beside = read({ account: "a", owner: "b" });
  t.equal(beside.conversation.user, undefined);
  t.match(beside.uses, [{ path: "account" }, { path: "owner" }]);
  t.same(read({ verbosity: "short" }).conversation.verbosity, "low");
  for (const value of ["odd", "constructor", 1, ["short"]])
    t.same(read({ verbosity: value }).uses, [{ feature: "other", path: "verbosity" }], JSON.stringify(value));
});

t.test("a name that every object has is no value of a map", async (t) => {
  t.throws(() => read({ config: { effort: "constructor" } }), { message: /LITTLE, MUCH/ });
  t.same(write({ tier: "constructor" }), { body: {}, dropped: ["tier"] });
});

t.test("meanings that share a wire value are encoded as it, and defaults and empty lists not at all", async (t) => {
  t.same(write({ tier: "standard", choices: 2 }).body, { tier: "usual", n: 2 });
  t.same(write({ tier: "default", choices: 1, stop: [] }).body, { tier: "usual" });
  t.same(write({ tier: "odd" }), { body: {}, dropped: ["tier"] });
});

t.test("the properties of an image are two members of an object, with their paths", async (t) => {
  const { conversation, uses } = read({ image: { shape: "1:1", odd: 1 } });
  t.same(conversation.image, { aspect: "1:1", paths: { aspect: "image.shape", size: "image.scale" } });
  t.same(uses, [
    { feature: "image_out", path: "image" },
    { feature: "other", path: "image.odd" },
  ]);
  t.same(write(conversation).body, { image: { shape: "1:1" } });
});

t.test("the fidelity table has a row for each setting that another protocol could lack", async (t) => {
  t.same(settingFields(TABLE), [
    ["temperature", "temperature"],
    ["max_new, max", "max_tokens"],
    ["config.stop", "stop"],
    ["config.effort", "reasoning_effort"],
    ["image", "image_out"],
  ]);
});
