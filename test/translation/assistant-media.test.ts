import t from "tap";
import { declareAssistantMedia, moveMediaToUser } from "../../src/translation/assistant-media.ts";
import type { Conversation, FeatureUse, Media, Part, Turn } from "../../src/translation/conversation.ts";

const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: role });
const text = (text: string): Part => ({ kind: "text", text, at: text });
const media = (at: string, media: Media["media"] = "image"): Media => ({
  kind: "media",
  media,
  mime: "image/png",
  source: { base64: "aGk=" },
  at,
});
const result: Part = { kind: "tool_result", callId: "a", parts: [], at: "result" };
const call: Part = { kind: "tool_call", id: "a", name: "f", arguments: "", at: "call" };
const talk = (turns: Turn[], uses: FeatureUse[] = []): Conversation => ({
  protocol: "c",
  task: "generate",
  stream: false,
  turns,
  tools: [],
  uses,
});

function moved(...turns: Turn[]) {
  const told: string[] = [];
  const conversation = talk(turns);
  const { turns: after } = moveMediaToUser(conversation, {
    change: (path) => told.push(path),
    drop: (path) => told.push(`${path} dropped`),
  });
  const what = (part: Part) => ("text" in part ? part.text : part.at);
  return { turns: after.map(({ role, parts }) => `${role}: ${parts.map(what).join(", ")}`), told };
}

t.test("the assistant's images come before the user's next text, with a note on their origin", async (t) => {
  t.same(moved(turn("user", text("draw")), turn("assistant", text("here"), media("m")), turn("user", text("bluer"))), {
    turns: ["user: draw", "assistant: here", "user: [image made by the assistant], m, bluer"],
    told: ["m"],
  });
});

t.test("an assistant turn with nothing else has a placeholder text, and several images keep their order", async (t) => {
  const parts = [media("m"), media("n", "audio")];
  t.same(moved(turn("assistant", parts[0] as Part), turn("assistant", parts[1] as Part), turn("user", text("go"))), {
    turns: [
      "assistant: [image]",
      "assistant: [audio]",
      "user: [image made by the assistant], m, [audio made by the assistant], n, go",
    ],
    told: ["m", "n"],
  });
  const thought: Part = { kind: "reasoning", at: "r", text: "hm" };
  t.same(moved(turn("assistant", thought, media("m")), turn("user", text("go"))).turns, [
    "assistant: hm, [image]",
    "user: [image made by the assistant], m, go",
  ]);
});

t.test("results of tools stay at their calls", async (t) => {
  const begin = turn("assistant", media("m"), call);
  t.same(moved(begin, turn("user", result), turn("user", result), turn("user", text("go"))).turns, [
    "assistant: call",
    "user: result",
    "user: result",
    "user: [image made by the assistant], m, go",
  ]);
  t.same(moved(begin, turn("user", result), turn("user", result), turn("assistant", text("so"))).turns, [
    "assistant: call",
    "user: result",
    "user: result, [image made by the assistant], m",
    "assistant: so",
  ]);
  t.same(
    moved(begin, turn("user", result, text("go"))).turns.at(-1),
    "user: result, [image made by the assistant], m, go",
  );
});

t.test("a system turn in between stays in place, and without a user turn it is dropped", async (t) => {
  t.same(moved(turn("assistant", media("m")), turn("system", text("s")), turn("user", text("go"))).turns, [
    "assistant: [image]",
    "system: s",
    "user: [image made by the assistant], m, go",
  ]);
  t.same(moved(turn("user", text("draw")), turn("assistant", media("m"))), {
    turns: ["user: draw"],
    told: ["m dropped"],
  });
});

t.test("a conversation without any is returned itself, and the user's own images do not matter", async (t) => {
  const conversation = talk([turn("user", media("m")), turn("assistant", text("a"))]);
  const never = () => t.fail("nothing is changed");
  t.equal(moveMediaToUser(conversation, { change: never, drop: never }), conversation);
});

t.test("each image of the assistant is declared", async (t) => {
  const uses: FeatureUse[] = [];
  declareAssistantMedia(talk([turn("user", media("u")), turn("assistant", media("m"), text("a"), media("n"))], uses));
  t.same(uses, [
    { feature: "assistant_media", path: "m" },
    { feature: "assistant_media", path: "n" },
  ]);
});
