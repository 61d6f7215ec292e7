/** Demo responses that the engine's script lacks: embeddings, a signature on a call, and an image after a response's text. */
import { hash } from "node:crypto";
import {
  asCount,
  asList,
  asObject,
  contentText,
  type DemoAnswer,
  type DemoRequest,
  demoAnswer,
  demoFault,
  demoTokens,
  demoWhole,
  GatewayError,
  type JsonObject,
  type Protocol,
} from "model-gateway/protocol";
import { spellingIn } from "./wire.ts";

/**
 * Returns the demo provider's response; undefined where the engine's script applies.
 * @throws GatewayError `invalid_field` for too many requests in one
 */
export function demo(protocol: Protocol, request: DemoRequest): DemoAnswer | undefined {
  if (demoFault(request.model, request.streaming)) return undefined;
  const body = asObject(request.body) ?? {};
  const { name, task } = request.operation;
  if (name === "embedContent") return demoWhole(embedResponse(body));
  if (name === "batchEmbedContents") return demoWhole(batchEmbedResponse(body));
  if (task !== "generate") return undefined;
  if (request.model === "image") return demoAnswer(protocol, request, { image: true });
  return request.model === "tool" ? demoAnswer(protocol, request, { callState: SIGNATURE }) : undefined;
}

/** The vendor signs calls, too. */
const SIGNATURE = Buffer.from("A signature of the demo, worth nothing elsewhere.").toString("base64");

const textDetails = (tokenCount: number) => [{ modality: "TEXT", tokenCount }];

function embedResponse(body: JsonObject) {
  const text = textToEmbed(body);
  const tokens = demoTokens(text);
  const usageMetadata = { promptTokenCount: tokens, totalTokenCount: tokens, promptTokensDetails: textDetails(tokens) };
  return { embedding: { values: embedding(text, dimensions(body)) }, usageMetadata };
}

/** Maximum requests in one, as the vendor's. */
const MAX_REQUESTS = 100;

function batchEmbedResponse(body: JsonObject) {
  const requests = asList(body["requests"]).map((value) => asObject(value) ?? {});
  if (requests.length > MAX_REQUESTS)
    throw new GatewayError("invalid_field", {
      message: `requests: at most ${MAX_REQUESTS} requests can be in one batch.`,
      param: "requests",
    });
  const tokens = demoTokens(requests.map(textToEmbed).join(""));
  const embeddings = requests.map((request) => ({ values: embedding(textToEmbed(request), dimensions(request)) }));
  // The vendor writes promptTokenDetails here. [F]
  return { embeddings, usageMetadata: { promptTokenCount: tokens, promptTokenDetails: textDetails(tokens) } };
}

const textToEmbed = (request: JsonObject): string => contentText(asObject(request["content"])?.["parts"]);

const dimensions = (request: JsonObject): number | undefined =>
  asCount(request[spellingIn(request, "outputDimensionality")]);

/** Dimensions of a vector, as of the vendor's model. */
const MAX_DIMENSIONS = 3072;
const DEFAULT_DIMENSIONS = 768;
/** Characters of a text that are read: the vendor reads the first 2,048 tokens. */
const MAX_EMBEDDED = 8192;

/** Returns a vector of length 1 for a text: each word adds to one dimension, so that texts with common words are similar. */
export function embedding(text: string, dimensions = DEFAULT_DIMENSIONS): number[] {
  const size = Math.min(Math.max(1, dimensions), MAX_DIMENSIONS);
  const values = new Array<number>(size).fill(0);
  for (const word of text
    .slice(0, MAX_EMBEDDED)
    .toLowerCase()
    .match(/[\p{L}\p{N}]+/gu) ?? [""]) {
    const dimension = Number.parseInt(hash("sha256", word, "hex").slice(0, 8), 16) % size;
    values[dimension] = (values[dimension] as number) + 1;
  }
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
