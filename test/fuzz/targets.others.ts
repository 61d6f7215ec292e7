/** Protocols that hold no conversations, or those of clients only: what they read of requests, of answers and of messages. */
import completions from "../../plugins/protocols/openai-completions/index.ts";
import embeddings from "../../plugins/protocols/openai-embeddings/index.ts";
import images from "../../plugins/protocols/openai-images/index.ts";
import realtime from "../../plugins/protocols/openai-realtime/index.ts";
import { Body } from "../../src/core/body.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { requestTexts } from "../../src/core/texts.ts";
import { ReferenceFinder } from "../../src/objects/reference-finder.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { readRequest, writeRequest } from "../../src/translation/request.ts";
import { Scanner } from "../../src/wire/json.ts";
import { SseSplitter } from "../../src/wire/sse.ts";
import { holds, type Target } from "../support/guided.ts";
import { received, SPOKEN, translationOf } from "../support/translations.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import { changedJson, checkTexts, JSON_WORDS, orRefused, parsed } from "./judging.ts";

const envelopes = new Envelopes("secret");
const OTHERS = Object.keys(SPOKEN) as ProtocolName[];

/** A body as the server lets it in. */
function bodyOf(bytes: Buffer): Body | undefined {
  const scanner = new Scanner();
  try {
    scanner.push(bytes);
    return new Body([bytes], scanner.end());
  } catch {
    return undefined;
  }
}

/** A text completion as each of the other protocols has it. */
function translated(text: string): void {
  const { operation } = completions.locate("/v1/completions", "", new URLSearchParams()) ?? {};
  if (!operation) throw new Error("there is no operation");
  const common = { protocol: completions, operation, streaming: false, caller: "" };
  for (const target of OTHERS)
    orRefused(() => {
      const asked = readRequest({ ...common, text }, envelopes);
      const protocol = { ...SPOKEN[target], translation: translationOf(target) };
      const to = { protocol, account: "them", model: "theirs", facts: {} };
      const written = writeRequest(asked, to, false).encoded.body;
      JSON.parse(written);
      checkTexts(asked, readRequest(received(target, written), envelopes));
    }, 400);
}

/** What is read of a request, of a whole answer and of a stream. */
const spoken = (protocol: Protocol, seeds: readonly unknown[], also?: (text: string) => void): Target => ({
  seeds: () => [
    ...seeds.map((seed) => Buffer.from(JSON.stringify(seed))),
    Buffer.from(seeds.map((seed) => `data: ${JSON.stringify(seed)}\n\n`).join("")),
  ],
  words: [...JSON_WORDS, ...(JSON.stringify(seeds).match(/"\w+":?/g) ?? []), "data: ", "\n\n"],
  change: changedJson,
  take(bytes) {
    for (const frame of new SseSplitter().push(bytes)) {
      protocol.ending(frame);
      protocol.objects?.mayHoldIds(frame);
      if (protocol.holdsUsage(frame)) orRefused(() => protocol.usage(parsed(Buffer.from(frame.text ?? ""))?.json));
    }
    const judged = parsed(bytes)?.json;
    const body = bodyOf(bytes);
    if (typeof judged !== "object" || judged === null || !body) return;
    protocol.usage(judged);
    holds([...protocol.texts.response(judged)].length >= 0, () => "texts");
    if (Array.isArray(judged)) return;
    orRefused(() => requestTexts(body, protocol), 400);
    const { objects } = protocol;
    if (objects) orRefused(() => new ReferenceFinder(objects).findInBody(body), 400);
    also?.(bytes.toString());
  },
});

const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
const choice = { index: 0, text: "b", finish_reason: "stop", logprobs: null };
const picture = { usage: { input_tokens: 9, output_tokens: 7, input_tokens_details: { image_tokens: 4 } } };

/** What a client says on a WebSocket, and what its provider does. */
const messages: Target = {
  seeds: () =>
    [
      { type: "session.update", session: { model: "m", voice: { id: "v" }, prompt: { id: "p", variables: {} } } },
      { type: "response.create", response: { input: [{ file_id: "f" }], tools: [{ model: "x" }] } },
      { type: "response.done", response: { usage: { input_tokens: 3, output_tokens: 4, input_token_details: {} } } },
    ].map((message) => Buffer.from(JSON.stringify(message))),
  words: [...JSON_WORDS, '"response.done"', '"cached_tokens_details":', '"audio_tokens":', '"item":', '"file_id":'],
  change: changedJson,
  take(bytes) {
    const { socket } = realtime;
    const readUsage = socket?.usageReader();
    readUsage?.(bytes, readUsage(bytes));
    for (const { name, path } of socket?.namesIn(parsed(bytes)?.json) ?? [])
      holds(typeof name === "string" && path.length > 0, () => `${name} ${path}`);
  },
};

/** By name. */
export const OTHER_TARGETS: Readonly<Record<string, Target>> = {
  "openai-completions": spoken(
    completions,
    [
      { model: "m", prompt: ["a"], echo: true, max_tokens: 3, stop: ["x"], logprobs: 1, suffix: null, stream: false },
      { id: "c", object: "text_completion", choices: [choice], usage },
    ],
    translated,
  ),
  "openai-embeddings": spoken(embeddings, [
    { model: "m", input: ["a", "b"], encoding_format: "base64", dimensions: 3 },
    { object: "list", data: [{ object: "embedding", index: 0, embedding: [0.5] }], usage },
  ]),
  "openai-images": spoken(images, [
    { model: "m", prompt: "a cat", n: 2, size: "1024x1024", quality: "high", images: [{ file_id: "file-1" }] },
    { created: 1, data: [{ b64_json: "AAAA", revised_prompt: "a cat" }], size: "1024x1024", ...picture },
    { type: "image_generation.completed", b64_json: "AAAA", ...picture },
  ]),
  "openai-realtime": messages,
};
