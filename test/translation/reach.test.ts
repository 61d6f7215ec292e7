import t from "tap";
import type { Model } from "../../src/core/marketplace.ts";
import { loadProtocols } from "../../src/loader/discover.ts";
import { modelReach } from "../../src/translation/reach.ts";
import { providerOf } from "../support/provider.ts";

const protocols = await loadProtocols();
/** How a model whose targets speak these is reached, by protocol. */
const reach = (targets: string[][], can: string[] = []) =>
  Object.fromEntries(
    protocols.flatMap((protocol) => {
      const all = targets.map((speaks) => ({ provider: providerOf({ name: "p", speaks }), model: "m", weight: 1 }));
      const found = modelReach(protocol, { targets: all, capabilities: can } as unknown as Model, protocols);
      return found ? [[protocol.name, found]] : [];
    }),
  );

t.test(
  "a model is called in its provider's protocol natively, in others by translation, in some depending on the target",
  async (t) => {
    t.match(reach([["gemini"]]), { gemini: "native", "openai-chat": "translated", "anthropic-messages": "translated" });
    t.match(reach([["gemini"], ["openai-chat"]]), { gemini: "mixed", "openai-chat": "mixed" });
    t.same(reach([]), {});
  },
);

t.test("an operation with a protocol of its own is available in that alone", async (t) => {
  t.same(reach([["openai-chat", "openai-images"]], ["images"]), { "openai-images": "native" });
  t.match(reach([["gemini"]], ["images"]), { gemini: "native" }, "where images are part of a conversation");
  t.notOk(Object.hasOwn(reach([["openai-realtime"]]), "openai-realtime"));
});
