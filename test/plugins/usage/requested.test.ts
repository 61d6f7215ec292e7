import t from "tap";
import { tokensInJson } from "../../../plugins/usage/requested.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { loadProtocols } from "../../../src/loader/discover.ts";

const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
const chat = protocols.get("openai-chat") as Protocol;
const asking = (content: string, more: object = {}) => ({ messages: [{ role: "user", content }], ...more });

t.test("a request has the tokens of its texts, its turns and its tools", async (t) => {
  const words = "Tell me everything that you know about it. ".repeat(40);
  const plain = tokensInJson(asking(words), chat) as number;
  t.ok(plain >= 350 && plain <= 400, `${plain}`);
  const tool = { type: "function", function: { name: "find", description: words, parameters: { type: "object" } } };
  const withTool = tokensInJson(asking(words, { tools: [tool] }), chat) as number;
  t.ok(withTool - plain >= 150 && withTool - plain <= 300, `${withTool}`);
  const claude = tokensInJson(asking(words, { tools: [tool] }), chat, "anthropic/claude-sonnet-4-5") as number;
  t.ok(claude - withTool > 500, `${claude}`);
});

t.test("of a long text the beginning is counted, and the rest is estimated by its length", async (t) => {
  const words = "Tell me everything that you know about it. ".repeat(200_000);
  const tokens = tokensInJson(asking(words), chat) as number;
  t.ok(tokens > 1_700_000 && tokens < 1_900_000, `${tokens}`);
});

t.test("a request without a text has no estimate", async (t) => {
  t.equal(tokensInJson({ input: [[1, 2, 3]] }, protocols.get("openai-embeddings") as Protocol), undefined);
  t.equal(tokensInJson(null, chat), undefined);
  t.equal(tokensInJson(asking(""), chat), 7);
});
