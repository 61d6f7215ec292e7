import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { type TranslatedProtocol } from "../../src/translation/codec.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { readRequest, writeRequest } from "../../src/translation/request.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { gathered } from "../support/gathered.ts";
import { SPOKEN } from "../support/translations.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** Words that every object has as members, and no table. */
const WORDS = ["constructor", "toString", "hasOwnProperty", "__proto__", "valueOf"];

const IMAGE = "data:image/png;base64,aGk=";

/** A request of each protocol with a word in every place where a table is asked, or as the name of a field. */
const BODIES: Record<ProtocolName, (word: string) => object[]> = {
  "openai-chat": (word) => [
    { service_tier: word },
    { [word]: 1 },
    { reasoning_effort: word },
    { tool_choice: { type: word } },
    { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "aGk=", format: word } }] }] },
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: IMAGE, detail: word } }] }] },
    { messages: [{ role: word, content: "Hi" }] },
  ],
  "openai-responses": (word) => [
    { service_tier: word },
    { [word]: 1 },
    { input: [{ type: word }] },
    { input: [{ role: "user", content: [{ type: "input_audio", input_audio: { data: "aGk=", format: word } }] }] },
    {
      input: [
        { role: "assistant", content: [{ type: "output_text", text: "Hi", annotations: [null, word] }] },
        { role: "user", content: "x" },
      ],
    },
    { text: { format: { type: word } } },
  ],
  "anthropic-messages": (word) => [
    { service_tier: word },
    { [word]: 1 },
    { tool_choice: { type: word }, tools: [{ name: "f", input_schema: { type: "object" } }] },
    { thinking: { type: word } },
    { messages: [{ role: "user", content: [{ type: word }] }] },
    { tools: [{ name: word, input_schema: { type: "object", [word]: 1 } }] },
  ],
  gemini: (word) => [
    { serviceTier: word },
    { [word]: 1 },
    { generationConfig: { [word]: 1, mediaResolution: word } },
    { contents: [{ role: word, parts: [{ text: "Hi" }] }] },
    { contents: [{ role: "user", parts: [{ [word]: 1 }] }] },
    { tools: [{ googleSearch: { [word]: 1 } }] },
    { tools: [{ functionDeclarations: [{ name: "f", parameters: { type: word, [word]: 1 } }] }] },
  ],
};

const ASKS: Record<ProtocolName, object> = {
  "openai-chat": { model: "m", messages: [{ role: "user", content: "Hi" }] },
  "openai-responses": { model: "m", input: "Hi" },
  "anthropic-messages": { model: "m", max_tokens: 2000, messages: [{ role: "user", content: "Hi" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "Hi" }] }] },
};

/** What is written for the target, or why nothing is. */
function sent(client: ProtocolName, target: ProtocolName, body: object): string | GatewayError {
  const protocol = SPOKEN[client];
  const query = new URLSearchParams();
  const { operation } = protocol.locate(protocol.paths[0] as string, "any:generateContent", query) ?? {};
  if (!operation) throw new Error(`${client} has no operation`);
  const text = JSON.stringify(body);
  const received = { protocol, operation, streaming: false, text, headers: new HeaderList(), query, caller: "" };
  try {
    const to = { protocol: SPOKEN[target] as TranslatedProtocol, account: "them", model: "theirs", facts: {} };
    return writeRequest(readRequest(received, new Envelopes("secret")), to, false).encoded.body;
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.status === 400) return thrown;
    throw thrown;
  }
}

for (const client of PROTOCOLS)
  gathered(t, `${client}: a word that every object has is a word like any other`, async (t) => {
    for (const target of PROTOCOLS.filter((each) => each !== client))
      for (const word of WORDS)
        for (const change of BODIES[client](word)) {
          // Computed, because a literal `__proto__` sets the prototype.
          const body = JSON.parse(JSON.stringify({ ...ASKS[client], ...change })) as object;
          const what = `${JSON.stringify(change)} to ${target}`;
          let result: string | GatewayError;
          try {
            result = sent(client, target, body);
          } catch (thrown) {
            t.fail(`${what}: ${(thrown as Error).stack?.slice(0, 300)}`);
            continue;
          }
          if (typeof result !== "string") continue;
          t.doesNotThrow(() => JSON.parse(result as string), what);
          t.notMatch(result, /native code/, what);
        }
  });
