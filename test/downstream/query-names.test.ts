import t from "tap";
import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../plugins/protocols/gemini/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import embeddings from "../../plugins/protocols/openai-embeddings/index.ts";
import { repeatsCheckedMember } from "../../src/downstream/query-names.ts";

t.test("query names that override what was checked elsewhere are found in any spelling and at any depth", async (t) => {
  for (const [protocol, ...names] of [
    [gemini, "model", "cachedContent", "cached-content", "a.b[0].FILE_URI", "generationConfig.x", "requests[0].model"],
    [chat, "deployment", "n", "N", "max_tokens", "service_tier", "messages[0].file_id", "moderation.model", "Preset"],
    [
      anthropic,
      "container[id]",
      "max_tokens",
      "fallbacks",
      "speed",
      "max_to\u212aens",
      "a.\u017fpeed",
      "\u212a.fallback\u017f[0]",
    ],
    [embeddings, "engine", "serviceTier", "model\u017f", "\u017fervice_tier", "Engine\u017f"],
  ] as const)
    for (const name of names) t.ok(repeatsCheckedMember(name, protocol), `${protocol.name} ${name}`);
  for (const [protocol, ...names] of [
    [gemini, "alt", "$alt", "prettyPrint", "fields", "filename"],
    [chat, "beta", "include", "remodel", "nn"],
    [anthropic, "beta", "after_id", "spoken"],
  ] as const)
    for (const name of names) t.notOk(repeatsCheckedMember(name, protocol), `${protocol.name} ${name}`);
});
