import t from "tap";
import type { Conversation, Part, Turn } from "../../src/translation/conversation.ts";
import { Losses } from "../../src/translation/losses.ts";
import { ToolNames } from "../../src/translation/names.ts";
import { RawJson } from "../../src/wire/exact.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { undeclared, unplaced } from "./request-losses.ts";

const text = (text: string): Part => ({ kind: "text", text, at: "said" });
const turn = (role: Turn["role"], ...parts: Part[]): Turn => ({ role, parts, at: "turn" });

/** A request with something of everything. */
const asked = (): Conversation => ({
  protocol: "gemini",
  task: "generate",
  stream: true,
  turns: [
    turn("system", text("Be brief.")),
    turn("user", text("What is this?"), {
      kind: "media",
      media: "image",
      mime: "image/png",
      source: { base64: "AAAA" },
      detail: "low",
      at: "image",
    }),
    turn("assistant", text("Let me see."), {
      kind: "tool_call",
      id: "a",
      name: "look",
      arguments: '{"at":"it"}',
      at: "call",
    }),
    turn("user", { kind: "tool_result", callId: "a", parts: [text("a cat")], at: "result" }),
    turn("assistant", text("A cat.")),
    turn("user", text("Sure?")),
  ],
  tools: [
    {
      kind: "function",
      name: "look",
      description: "Looks.",
      parameters: new RawJson('{"type":"object","properties":{"at":{"type":"string"}}}'),
      at: "tools.0",
    },
    { kind: "web_search", allowed: ["example.com"], at: "tools.1" },
  ],
  toolChoice: { mode: "required" },
  temperature: 0.5,
  maxTokens: 100,
  stop: ["END"],
  reasoning: { effort: "high" },
  uses: [
    { feature: "temperature", path: "temperature" },
    { feature: "citations", path: "turns.0.citations" },
  ],
});

function faults(change: (conversation: Conversation) => void, declared?: string, target: ProtocolName = "openai-chat") {
  const back = asked();
  change(back);
  const losses = new Losses("vendor", false);
  if (declared !== undefined) losses.drop(declared, "why");
  return undeclared(asked(), back, { target, names: new ToolNames(), losses, body: "{}" });
}

const CHANGES: Record<string, (conversation: Conversation) => void> = {
  "a turn is gone": ({ turns }) => turns.splice(4, 1),
  "a text is gone": ({ turns }) => turns[1]?.parts.shift(),
  "a text is another": ({ turns }) => turns[5]?.parts.splice(0, 1, text("Sure!")),
  "a text is cut": ({ turns }) => turns[5]?.parts.splice(0, 1, text("Sure")),
  "a text is somebody else's": ({ turns }) =>
    turns[0]?.parts.splice(0, 1) && turns[1]?.parts.unshift(text("Be brief.")),
  "a text is in another turn": ({ turns }) => turns[5]?.parts.unshift(...(turns[1]?.parts.splice(0, 1) ?? [])),
  "a text is made up": ({ turns }) => turns[5]?.parts.push(text(".")),
  "an image is gone": ({ turns }) => turns[1]?.parts.pop(),
  "an argument is another": ({ turns }) => Object.assign(turns[2]?.parts[1] ?? {}, { arguments: '{"at":"them"}' }),
  "a call has another name": ({ turns }) => Object.assign(turns[2]?.parts[1] ?? {}, { name: "see" }),
  "a call has another id": ({ turns }) => Object.assign(turns[2]?.parts[1] ?? {}, { id: "b" }),
  "a result is another": ({ turns }) => Object.assign(turns[3]?.parts[0] ?? {}, { parts: [text("a dog")] }),
  "a tool is gone": ({ tools }) => tools.shift(),
  "a search is gone": ({ tools }) => tools.pop(),
  "a search may go anywhere": ({ tools }) => Object.assign(tools[1] ?? {}, { allowed: undefined }),
  "a description is gone": ({ tools }) => Object.assign(tools[0] ?? {}, { description: undefined }),
  "a schema is gone": ({ tools }) => Object.assign(tools[0] ?? {}, { parameters: undefined }),
  "a tool became strict": ({ tools }) => Object.assign(tools[0] ?? {}, { strict: true }),
  "the choice is free": (back) => Object.assign(back, { toolChoice: { mode: "auto" } }),
  "the temperature is gone": (back) => Object.assign(back, { temperature: undefined }),
  "the limit is another": (back) => Object.assign(back, { maxTokens: 99 }),
  "a stop is gone": (back) => Object.assign(back, { stop: [] }),
  "the effort is another": (back) => Object.assign(back, { reasoning: { effort: "low" } }),
  "an answer is whole that was to be streamed": (back) => Object.assign(back, { stream: false }),
};

for (const [name, change] of Object.entries(CHANGES))
  t.test(`a loss is detected: ${name}`, async (t) => {
    t.not(faults(change).length, 0);
  });

t.test("the same content in another form is no loss", async (t) => {
  t.same(
    faults(() => {}),
    [],
  );
  const cut = ({ turns }: Conversation) => turns[4]?.parts.splice(0, 1, text("A "), text("cat."));
  t.same(faults(cut), []);
  t.same(
    faults(({ turns }) => turns.splice(5, 1, turn("user", text("")), turn("user", text("Sure?")))),
    [],
  );
});

t.test("texts and calls keep their order", async (t) => {
  const conversation = asked();
  conversation.turns.push(turn("user", text("one"), text("two")));
  const back = asked();
  back.turns.push(turn("user", text("two"), text("one")));
  const written = {
    target: "gemini",
    names: new ToolNames(),
    losses: new Losses("vendor", false),
    body: "{}",
  } as const;
  t.match(undeclared(conversation, back, written), [/^puts text \d+ user in another order$/]);
});

t.test("a setting may be dropped when that is declared, content may not", async (t) => {
  const cold = (back: Conversation) => Object.assign(back, { temperature: undefined });
  t.same(faults(cold, "temperature"), []);
  t.not(faults(cold, "top_p").length, 0);
  t.not(faults(({ turns }) => turns[4]?.parts.pop(), "said").length, 0);
});

t.test("a feature that the target supports must be present, or be declared", async (t) => {
  const silent = (back: Conversation) => Object.assign(back, { uses: [] });
  t.match(faults(silent, undefined, "openai-responses"), [/^says nothing of citations at turns\.0\.citations$/]);
  t.same(faults(silent, "turns.0.citations", "openai-responses"), []);
  t.same(faults(silent, undefined, "openai-chat"), [], "Chat's table omits it");
});

t.test("a reported path leads to a member of the body, or to none", async (t) => {
  const body = JSON.stringify({ messages: [{ content: null }] });
  t.same(unplaced(["messages.0.content", "messages.1", "messages.0.content.0", "seed"], body), [
    "messages.1",
    "messages.0.content.0",
    "seed",
  ]);
});
