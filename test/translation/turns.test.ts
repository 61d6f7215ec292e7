import t from "tap";
import type { Part, Turn } from "../../src/translation/conversation.ts";
import { mergeTurns } from "../../src/translation/turns.ts";

const turn = (role: Turn["role"], ...texts: string[]): Turn => ({
  role,
  at: texts[0] ?? "",
  parts: texts.map((text): Part => ({ kind: "text", text, at: "" })),
});
const shape = (turns: Turn[]) =>
  turns.map(({ role, parts }) => [role, ...parts.map((part) => (part as { text: string }).text)]);

t.test("adjacent turns of the same role become one, in order; system turns stay separate", async (t) => {
  t.same(
    shape(
      mergeTurns([
        turn("system", "s1"),
        turn("system", "s2"),
        turn("user", "a"),
        turn("user", "b", "c"),
        turn("assistant", "d"),
        turn("developer", "e"),
        turn("developer", "f"),
        turn("assistant", "g"),
      ]),
    ),
    [
      ["system", "s1"],
      ["system", "s2"],
      ["user", "a", "b", "c"],
      ["assistant", "d"],
      ["developer", "e"],
      ["developer", "f"],
      ["assistant", "g"],
    ],
  );
});

t.test("the input turns stay unchanged", async (t) => {
  const turns = [turn("user", "a"), turn("user", "b")];
  mergeTurns(turns);
  t.same(shape(turns), [
    ["user", "a"],
    ["user", "b"],
  ]);
});

t.test("turns of very many parts are joined like others", async (t) => {
  const parts = Array.from({ length: 300_000 }, () => ({ kind: "text" as const, text: "a", at: "x" }));
  const [turn] = mergeTurns([
    { role: "user", parts: [], at: "a" },
    { role: "user", parts, at: "b" },
  ]);
  t.equal(turn?.parts.length, parts.length);
});
