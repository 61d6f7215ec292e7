import t from "tap";
import type { Part, Turn } from "../../src/translation/conversation.ts";
import { callIds, PrefixKey, restoreId, safeId, TextKey, unusedId } from "../../src/translation/ids.ts";
import { runLinear } from "../support/linear-work.ts";

t.test("an id that every protocol accepts stays unchanged", async (t) => {
  for (const id of ["call_1", "toolu_01-x", "a".repeat(64)]) t.equal(safeId(id), id);
});

t.test("another one is replaced, by the same each time, and different ones stay different", async (t) => {
  const ids = ["functions.Bash:0", "functions_Bash:0", "", "é", "a".repeat(65), `${"a".repeat(65)}b`, "x".repeat(5000)];
  for (const id of ids) {
    const safe = safeId(id);
    t.match(safe, /^[a-zA-Z0-9_-]{1,64}$/);
    t.equal(safeId(id), safe);
    t.equal(safeId(safe), safe, "a valid id stays unchanged");
  }
  t.equal(new Set(ids.map((id) => safeId(id))).size, ids.length);
});

t.test(
  "ids that some models know from their prompt stay, and are restored from what restricted clients get",
  async (t) => {
    const kept = [
      "call_1",
      "functions.Bash:0",
      "functions.mcp__a-b__c:12",
      `functions.${"n".repeat(64)}:3`,
      "-.:",
      "a--d",
    ];
    for (const id of kept) {
      t.equal(safeId(id, "keep"), id);
      const escaped = safeId(id, "escape");
      t.match(escaped, /^[a-zA-Z0-9_-]+$/);
      t.equal(restoreId(escaped), id);
    }
    t.equal(safeId("functions.Bash:0", "escape"), "gw1id_functions-1Bash-20");
    for (const id of ["", "a b", "é", "a\nb", `${"a".repeat(64)}.b`, "x".repeat(300)]) {
      t.equal(safeId(id, "keep"), safeId(id));
      t.equal(safeId(id, "escape"), safeId(id));
      t.equal(restoreId(safeId(id)), safeId(id), "a hash cannot be undone");
    }
    for (const id of ["gw1id_", "gw1id_a", "gw1id_a-1", "gw1id_a-7", "gw1id_-", "call_-1"]) {
      t.equal(safeId(id, "escape"), id, "a valid id stays");
      if (id !== "gw1id_a-1") t.equal(restoreId(id), id, "what was not escaped here stays");
    }
  },
);

t.test("ids created for an answer are the same for the same answer", async (t) => {
  const [one, other] = [callIds("answer:1"), callIds("answer:1")];
  const ids = [one(), one(), one()];
  t.same(ids, [other(), other(), other()]);
  t.equal(new Set(ids).size, 3);
  for (const id of ids) t.equal(safeId(id), id);
  t.notSame(callIds("answer:2")(), ids[0]);
});

t.test("a text is identified by its length and its end, however it arrived", async (t) => {
  const text = "Ä long ".repeat(40);
  const whole = `${new TextKey().add(text)}`;
  for (const size of [1, 3, 63, 64, 65, 200]) {
    const key = new TextKey();
    for (let at = 0; at < text.length; at += size) key.add(text.slice(at, at + size));
    t.equal(`${key}`, whole);
  }
  t.not(`${new TextKey().add(`x${text}`)}`, whole);
  t.not(`${new TextKey().add(`${text}x`)}`, whole);
});

t.test("a conversation is identified by all its texts, whatever is beside them", async (t) => {
  const text = (text: string): Part => ({ kind: "text", text, at: "x" });
  const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: "x" });
  const call = (args: string): Part => ({ kind: "tool_call", id: "a", name: "f", arguments: args, at: "x" });
  const result = (said: string): Part => ({ kind: "tool_result", callId: "a", parts: [text(said)], at: "x" });
  const turns = [
    turn("system", text("Be brief.")),
    turn("user", text("Hi")),
    turn("assistant", text("Well."), call("{}")),
    turn("user", result("ok")),
  ];
  const key = (turns: readonly Turn[]) => new PrefixKey(turns).turn(turns.length);
  const grown = new PrefixKey(turns);
  for (let n = 0; n <= turns.length; n++) t.equal(grown.turn(n), key(turns.slice(0, n)), "turn by turn");
  const same = turns.map((each) => ({
    ...each,
    at: "y",
    parts: [...each.parts.map((part): Part => ({ ...part, at: "y", cache: {} })), text("")],
  }));
  const thinking: Part = { kind: "reasoning", text: "Hm", at: "z" };
  t.equal(key([...same, turn("assistant", thinking)]), key(turns), "marks, places, thoughts and nothing");
  const others = [
    turns.slice(1),
    [turn("user", text("Be brief.")), ...turns.slice(1)],
    turns.with(1, turn("user", text("Ho"))),
    turns.with(2, turn("assistant", text("Well."), call("[]"))),
    turns.with(3, turn("user", result("no"))),
    [...turns, turn("user", text("Hi"))],
  ];
  t.equal(new Set([...others, turns].map(key)).size, others.length + 1);
});

t.test("media are recognised by their bytes", async (t) => {
  t.match(TextKey.ofMedia("aGk="), /^media:[\w-]{43}$/);
  t.equal(TextKey.ofMedia("aGk="), TextKey.ofMedia("aGk="));
  t.not(TextKey.ofMedia("aGk="), TextKey.ofMedia("aGo="));
});

t.test("the key of long content, and of many turns, is made in many steps, and is the same as at once", async (t) => {
  const text = (text: string): Part => ({ kind: "text", at: "", text });
  const user = (...parts: Part[]): Turn => ({ role: "user", at: "", parts });
  const counted = (turns: readonly Turn[]) => {
    const steps = new PrefixKey(turns).turnInSteps(turns.length);
    for (let count = 1; ; count++) {
      const { done, value } = steps.next();
      if (done) return { key: value, count };
    }
  };
  const long = "Is it cold? 😀".repeat(200_000);
  for (const turns of [
    [user(text("Hi")), user(text(long))],
    [user({ kind: "media", at: "", media: "image", source: { base64: "QUJD".repeat(600_000) } }), user(text("Hi"))],
    Array.from({ length: 5000 }, () => user(text("Hi"))),
  ]) {
    const { key, count } = counted(turns);
    t.ok(count > 8, `${count} steps`);
    t.equal(key, new PrefixKey(turns).turn(turns.length));
    t.not(key, counted([...turns.slice(0, -1), user(text("Hi."))]).key);
  }
  t.not(counted([user(text(long))]).key, counted([user(text(`${long}.`))]).key);
  t.equal(counted([user(text("Hi"))]).count, 1);
});

t.test("an id that is used already is changed to one that is not", (t) => {
  t.equal(unusedId("a", new Set(["b"])), "a");
  t.equal(unusedId("a", new Set(["a", "b"])), "a_2");
  t.equal(unusedId("a", new Set(["a", "a_2"])), "a_3");
  t.equal(unusedId("functions.f:0", new Set(["functions.f:0", "functions.f:2"])), "functions.f:3");
  t.end();
});

t.test("an unused id is found in linear time, however many are used and however long they are", async (t) => {
  const count = 50_000;
  const used = new Set(Array.from({ length: count }, (_, n) => `a_${count + n}`));
  used.add("a");
  runLinear(() => {
    for (let n = 0; n < count; n++) used.add(unusedId("a", used));
  });
  t.equal(used.size, 2 * count + 1);
  const digits = "1".repeat(1_000_000);
  runLinear(() => t.equal(unusedId(`${digits}:0`, new Set([`${digits}:0`])), `${digits}:1`));
  runLinear(() => t.equal(unusedId(digits, new Set([digits])), `${digits}_1`));
});
