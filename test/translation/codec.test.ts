import t from "tap";
import type { Protocol } from "../../src/core/protocol.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { betterOf, clientHalf, clientSide, translates, translationOf } from "../../src/translation/codec.ts";

const protocols = new Map((await loadProtocols()).map((protocol) => [protocol.name, protocol]));
const named = (name: string): Protocol => protocols.get(name) as Protocol;

t.test("a protocol is translated in both directions, for its clients only, or not at all", async (t) => {
  const both = named("openai-chat");
  const clients = named("openai-completions");
  const none = named("openai-embeddings");
  t.same([both, clients, none].map(translates), [true, false, false]);
  t.equal(clientSide(both), translationOf(both));
  t.ok(clientSide(clients));
  t.equal(translationOf(clients), undefined);
  t.equal(clientSide(none), undefined);
});

t.test("only a protocol that says so has a better one", async (t) => {
  t.equal(betterOf(named("openai-chat"))?.protocol, "openai-responses");
  t.equal(betterOf(named("gemini")), undefined);
});

t.test("a protocol without a client's half cannot be asked for it", async (t) => {
  t.equal(clientHalf(named("openai-completions")), clientSide(named("openai-completions")));
  t.throws(() => clientHalf(named("openai-embeddings")), /openai-embeddings/);
});
