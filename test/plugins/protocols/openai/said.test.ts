import t from "tap";
import { saidAt } from "../../../../plugins/protocols/openai/said.ts";
import type { Conversation } from "../../../../src/translation/conversation.ts";

const conversation: Conversation = {
  protocol: "any",
  task: "generate",
  stream: false,
  turns: [],
  tools: [],
  uses: [
    { feature: "stop", path: "stop_sequences" },
    { feature: "stop", path: "stop" },
  ],
};

t.test("a feature is where the client said it first", async (t) => {
  t.equal(saidAt(conversation, "stop"), "stop_sequences");
  t.equal(saidAt(conversation, "user"), "user");
});
