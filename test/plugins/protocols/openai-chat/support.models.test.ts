import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import type { Translation } from "../../../../src/translation/codec.ts";
import type { Part, Turn } from "../../../../src/translation/conversation.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { terms } from "./fixture.ts";

const { request } = openaiChat.translation as Translation;

/** The roles and contents of the messages that turns become, and what is declared. */
function sent(model: string, ...turns: Turn[]) {
  const to = terms({}, model);
  const asked = { protocol: "another", task: "generate", stream: false, turns, tools: [], uses: [] } as const;
  const { messages } = JSON.parse(runAtOnce(request.encode({ ...asked, tools: [], uses: [] }, to)).body) as {
    messages: { role: string; content: unknown }[];
  };
  return { messages: messages.map(({ role, content }) => [role, content]), changed: to.losses.changed };
}

const turn = (role: Turn["role"], at: string, ...parts: Part[]): Turn => ({ role, parts, at });
const text = (words: string): Part => ({ kind: "text", text: words, at: "text" });
const call: Part = { kind: "tool_call", id: "a", name: "one", arguments: "{}", at: "call" };
const result = (...parts: Part[]): Part => ({ kind: "tool_result", callId: "a", parts, at: "result" });

const MISTRAL = ["mistral-large-latest", "mistralai/Devstral-Small-2507", "Codestral-2501"];

t.test("a user's message does not follow a result for Mistral's models: the assistant's is between", async (t) => {
  const turns = [
    turn("user", "0", text("Go")),
    turn("assistant", "1", call),
    turn("user", "2", result(text("ok")), text("And?")),
  ];
  const before = [
    ["user", "Go"],
    ["assistant", null],
    ["tool", "ok"],
  ];
  for (const model of MISTRAL) {
    const ended = [...before, ["assistant", "Done."], ["user", "And?"]];
    t.same(sent(model, ...turns), { messages: ended, changed: ["2"] }, model);
    const alone = [...turns.slice(0, 2), turn("user", "2", result(text("ok")))];
    t.same(sent(model, ...alone), { messages: before, changed: [] }, "nothing follows it");
    const answered = [...alone, turn("assistant", "3", text("So.")), turn("user", "4", text("And?"))];
    t.same(sent(model, ...answered).messages.slice(3), [
      ["assistant", "So."],
      ["user", "And?"],
    ]);
  }
  t.same(sent("deepseek-chat", ...turns), { messages: [...before, ["user", "And?"]], changed: [] });
});

t.test("so it is with media of a result, and with a system's message that is sent as the user's", async (t) => {
  const image: Part = { kind: "media", media: "image", mime: "image/png", source: { base64: "aGk=" }, at: "image" };
  const roles = (...turns: Turn[]) => sent("mistral-large-latest", ...turns).messages.map(([role]) => role);
  const calling = [turn("user", "0", text("Go")), turn("assistant", "1", call)];
  t.same(roles(...calling, turn("user", "2", result(image), text("And?"))), [
    ...["user", "assistant", "tool"],
    ...["assistant", "user", "user"],
  ]);
  t.same(roles(...calling, turn("user", "2", result(text("ok"))), turn("system", "3", text("Be terse."))), [
    ...["user", "assistant", "tool"],
    ...["assistant", "user"],
  ]);
});
