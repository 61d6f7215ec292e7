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
    hasNoEffect: (list) => String(list) === "",
  },
  {
    path: "config.effort",
    field: "reasoning.effort",
    feature: "reasoning_effort",
    type: "text",
    valueMap: { LITTLE: "low", MUCH: "high" },
  },
  { path: "store", field: "store", type: "flag" },
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
    client: "x",
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
  t.throws(() => write({ temperature: 3, uses }, { sampling: false }), /^generation\.temp: It must be/);
  t.same(write({ reasoning: { effort: "max" } }), { body: {}, dropped: ["reasoning_effort"] });
});

t.test("the fidelity table has a row for each setting that another protocol could lack", async (t) => {
  t.same(settingFields(TABLE), [
    ["temperature", "temperature"],
    ["max_new, max", "max_tokens"],
    ["config.stop", "stop"],
    ["config.effort", "reasoning_effort"],
  ]);
});
