import t from "tap";
import type { Conversation, ToolCall } from "../../src/translation/conversation.ts";
import { dropUnknownNamespaces } from "../../src/translation/namespaces.ts";

const call = (namespace: string): ToolCall => ({
  kind: "tool_call",
  id: "a",
  name: "f",
  namespace,
  arguments: "{}",
  at: "c",
});

t.test("a call keeps the namespace of its tool, and no other", async (t) => {
  const conversation: Conversation = {
    protocol: "p",
    task: "generate",
    stream: false,
    turns: [{ role: "assistant", at: "m", parts: [call("known"), call("found")] }],
    tools: [{ kind: "function", name: "f", namespace: "known", at: "t" }],
    uses: [],
  };
  dropUnknownNamespaces(conversation);
  const { namespace: _, ...bare } = call("found");
  t.same(conversation.turns[0]?.parts, [call("known"), bare]);
});
