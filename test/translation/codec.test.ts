import t from "tap";
import type { Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import {
  betterProtocolOf,
  clientTranslationOf,
  isTranslatable,
  requireClientTranslation,
  translationOf,
} from "../../src/translation/codec.ts";

const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
const named = (name: string): Protocol => protocols.get(name) as Protocol;

t.test("a protocol is translated in both directions, for its clients only, or not at all", async (t) => {
  const both = named("openai-chat");
  const clients = named("openai-completions");
  const none = named("openai-embeddings");
  t.same([both, clients, none].map(isTranslatable), [true, false, false]);
  t.equal(clientTranslationOf(both), translationOf(both));
  t.ok(clientTranslationOf(clients));
  t.equal(translationOf(clients), undefined);
  t.equal(clientTranslationOf(none), undefined);
});

t.test("only a protocol that defines it has a preferred one", async (t) => {
  t.equal(betterProtocolOf(named("openai-chat"))?.protocol, "openai-responses");
  t.equal(betterProtocolOf(named("gemini")), undefined);
});

t.test("a protocol without a client's half cannot be used for a client", async (t) => {
  t.equal(requireClientTranslation(named("openai-completions")), clientTranslationOf(named("openai-completions")));
  t.throws(() => requireClientTranslation(named("openai-embeddings")), /openai-embeddings/);
});
