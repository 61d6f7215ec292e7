import t from "tap";
import anthropicMessages from "../../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../../plugins/protocols/gemini/index.ts";
import openaiChat from "../../../plugins/protocols/openai-chat/index.ts";
import openaiCompletions from "../../../plugins/protocols/openai-completions/index.ts";
import { requestedOutput } from "../../../plugins/usage/output-limit.ts";
import { Body } from "../../../src/core/body.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { scan } from "../../../src/wire/json.ts";

function limit(protocol: Protocol, request: object): number | undefined {
  const bytes = Buffer.from(JSON.stringify(request));
  return requestedOutput({ protocol, body: new Body([bytes], scan(bytes)) });
}

t.test("a request's limit is that of all its responses; of two members the higher one", (t) => {
  t.equal(limit(openaiChat, { max_tokens: 120 }), 120);
  t.equal(limit(openaiChat, { max_tokens: 120, max_completion_tokens: 100, n: 3 }), 360);
  t.equal(limit(anthropicMessages, { max_tokens: 1000 }), 1000);
  t.equal(limit(openaiChat, { max_tokens: 120.5, n: 1.1 }), 133);
  t.equal(limit(gemini, { generationConfig: { maxOutputTokens: 50, candidateCount: 2 } }), 100);
  t.end();
});

t.test("a list of prompts has an answer each, as often as each is asked for", (t) => {
  t.equal(limit(openaiCompletions, { max_tokens: 50, prompt: "Once upon a time" }), 50);
  t.equal(limit(openaiCompletions, { max_tokens: 50, prompt: ["a", "b", "c"] }), 150);
  t.equal(limit(openaiCompletions, { max_tokens: 50, prompt: ["a", "b"], n: 2, best_of: 3 }), 300);
  t.equal(limit(openaiCompletions, { max_tokens: 50, prompt: [] }), 50);
  t.end();
});

t.test("nothing is known without a limit, with one that is no number, and with further models", (t) => {
  t.equal(limit(openaiChat, {}), undefined);
  t.equal(limit(openaiChat, { max_tokens: null }), undefined);
  t.equal(limit(openaiChat, { max_tokens: "120" }), undefined);
  t.equal(limit(openaiChat, { max_tokens: 120, n: "3" }), undefined);
  t.equal(limit(anthropicMessages, { max_tokens: 10, fallbacks: [{ model: "other" }] }), undefined);
  t.end();
});
