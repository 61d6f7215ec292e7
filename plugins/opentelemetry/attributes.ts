import type { Attributes } from "@opentelemetry/api";
import { type Attempt, type DoneExchange, Marketplace, type SendExchange } from "model-gateway";
import type { AnswerFacts } from "./answer-facts.ts";

// Attributes of the semantic conventions for generative AI, which are all still in development: the list is our own, because
// no package has one (github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md).

/** Vendor names of the conventions, by the vendor in gateway.yaml and by host. */
const VENDORS: readonly (readonly [vendor: string, host: RegExp, name: string])[] = [
  ["openai", /(^|\.)api\.openai\.com$/, "openai"],
  ["anthropic", /^api\.anthropic\.com$/, "anthropic"],
  ["google", /(^|\.)generativelanguage\.googleapis\.com$/, "gcp.gemini"],
  ["google", /aiplatform\.googleapis\.com$/, "gcp.vertex_ai"],
  ["azure", /\.(openai|services\.ai|cognitiveservices)\.azure\.com$/, "azure.ai.openai"],
  ["aws", /^bedrock-.*\.amazonaws\.com$/, "aws.bedrock"],
  ["groq", /^api\.groq\.com$/, "groq"],
  ["x-ai", /(^|\.)api\.x\.ai$/, "x_ai"],
  ["deepseek", /^api\.deepseek\.com$/, "deepseek"],
  ["mistral", /^api\.mistral\.ai$/, "mistral_ai"],
  ["perplexity", /^api\.perplexity\.ai$/, "perplexity"],
  ["cohere", /^api\.cohere\.(ai|com)$/, "cohere"],
  ["moonshotai", /^api\.moonshot\.(ai|cn)$/, "moonshot_ai"],
];

/** Returns the operation's name in the conventions; for others our own. */
function operationOf({ protocol, operation }: Pick<SendExchange, "protocol" | "operation">): string {
  if (!operation.generates) return protocol.name === "openai-embeddings" ? "embeddings" : operation.name;
  if (protocol.name === "gemini") return operation.name.startsWith("embed") ? "embeddings" : "generate_content";
  if (protocol.name === "openai-completions") return "text_completion";
  if (protocol.name === "openai-embeddings") return "embeddings";
  return protocol.name === "openai-images" ? "generate_content" : "chat";
}

/** Returns the name of an attempt's span: `{operation} {model}`, with the vendor's name of the model. */
export const attemptSpanName = (exchange: SendExchange, { target }: Attempt): string =>
  `${operationOf(exchange)} ${target.model}`;

/** Returns the name of the request's span, once the model is known. */
export const requestSpanName = (exchange: DoneExchange): string =>
  `${operationOf(exchange)} ${exchange.model?.id ?? ""}`;

/** Removes undefined attributes. */
const withoutUndefined = (attributes: Record<string, Attributes[string]>): Attributes =>
  Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined));

/** Returns the attributes of the request's span: caller, request and outcome. */
export function requestAttributes(exchange: DoneExchange): Attributes {
  const { id, method, path, protocol, status, caller, model, outcome, attempts, error, address } = exchange;
  return withoutUndefined({
    "http.request.method": method,
    "url.path": path,
    "http.response.status_code": status === 0 ? undefined : status,
    "client.address": address === "" ? undefined : address,
    "error.type": status >= 500 || outcome !== "completed" ? (error?.code ?? outcome) : undefined,
    "gateway.request.id": id,
    "gateway.api": protocol.name,
    "gateway.key": caller?.name,
    "gateway.group": caller?.group,
    "gateway.model": attempts.at(-1)?.target.modelId ?? model?.id,
    "gateway.outcome": outcome,
    "gateway.attempts": attempts.length,
  });
}

/** Returns the attributes of an attempt's span. @param facts of its response; undefined: the response is another attempt's */
export function attemptAttributes(
  exchange: DoneExchange,
  attempt: Attempt,
  facts: AnswerFacts | undefined,
): Attributes {
  const { target, status, error, protocol } = attempt;
  const { hostname, port, protocol: scheme } = target.provider.url;
  const fault = error?.code ?? ((status ?? 0) >= 400 ? String(status) : undefined);
  return withoutUndefined({
    "gen_ai.operation.name": operationOf({ ...exchange, protocol } as DoneExchange),
    "gen_ai.provider.name": providerName(attempt),
    "gen_ai.request.model": target.model,
    "gen_ai.conversation.id": conversationId(exchange),
    "gen_ai.output.type": outputType(attempt),
    "server.address": hostname,
    "server.port": Number(port) || (scheme === "https:" ? 443 : 80),
    "http.response.status_code": status,
    "error.type":
      fault ?? (facts && exchange.outcome !== "completed" ? (exchange.error?.code ?? exchange.outcome) : undefined),
    "gateway.target": Marketplace.nameOf(target),
    ...(facts && responseAttributes(exchange, attempt, facts)),
    ...settingAttributes(attempt),
  });
}

/** The form of an id; a longer or other text is none. */
const CONVERSATION_ID = /^[\w.:@=+/-]{1,256}$/;

/**
 * Returns the id of the conversation: that of the vendor's stored one, or the session that the client's headers name. A cache key
 * or a user's id is none, as several conversations may have it.
 */
function conversationId({ protocol, headers, body, credentials }: DoneExchange): string | undefined {
  const stored = body.member("conversation") && body.value("conversation");
  const named = typeof stored === "object" && stored !== null ? (stored as { id?: unknown }).id : stored;
  const all = [named, ...(protocol.conversation?.headers ?? []).map((name) => headers.get(name))];
  // Some clients set the same text as key and session.
  const isId = (text: string) => CONVERSATION_ID.test(text) && !text.startsWith("gw_") && !credentials.includes(text);
  return all.find((each): each is string => typeof each === "string" && isId(each));
}

/** Types of output in the conventions, by what requests name; of several, the first is taken. */
const OUTPUT_TYPES: readonly (readonly [type: string, asked: RegExp])[] = [
  ["image", /^image/i],
  ["speech", /^audio/i],
  ["json", /^(?:json_object|json_schema|application\/json)$/],
  ["text", /^text/i],
];

/** Returns the type of output that an attempt asks for; undefined: it does not say. */
function outputType({ protocol, body }: Attempt): string | undefined {
  if (protocol.name === "openai-images") return "image";
  if (body.scan === undefined) return undefined;
  const at = (...path: string[]) => {
    const [first = "", ...below] = path;
    let value = body.member(first) && body.value(first);
    for (const name of below) value = (value as Record<string, unknown> | null | undefined)?.[name];
    return value;
  };
  const asked = [
    ...[at("response_format", "type"), at("modalities")],
    at("text", "format", "type"),
    ...[at("output_config", "format", "type"), at("output_format", "type")],
    ...[at("generationConfig", "responseMimeType"), at("generationConfig", "responseModalities")],
  ].flat();
  return OUTPUT_TYPES.find(([, pattern]) => asked.some((each) => typeof each === "string" && pattern.test(each)))?.[0];
}

function providerName({ target: { provider }, protocol }: Attempt): string {
  const { vendor, url } = provider;
  const found = VENDORS.find(([, host]) => host.test(url.hostname)) ?? VENDORS.find(([name]) => name === vendor);
  if (found) return found[2];
  // Another vendor with a known protocol: the conventions require the name of the imitated one.
  const [family = ""] = protocol.name.split("-");
  return family === "gemini" ? "gcp.gemini" : family;
}

function responseAttributes(
  { usage: reported, charge, streaming, firstByte }: DoneExchange,
  { startedAt }: Attempt,
  { id, model, finishReasons }: AnswerFacts,
): Record<string, Attributes[string]> {
  const { in: input, out } = charge?.usage ?? reported ?? { in: undefined, out: undefined };
  const written = Object.values(input?.write ?? {}).reduce((sum, tokens = 0) => sum + tokens, 0);
  return {
    "gen_ai.response.id": id,
    "gen_ai.response.model": model,
    "gen_ai.response.finish_reasons": finishReasons.length > 0 ? finishReasons : undefined,
    "gen_ai.response.time_to_first_chunk":
      streaming && firstByte !== undefined ? Math.max(0, firstByte - startedAt) / 1000 : undefined,
    "gen_ai.usage.input_tokens": input?.total,
    "gen_ai.usage.output_tokens": out?.total,
    "gen_ai.usage.cache_read.input_tokens": input?.cached,
    "gen_ai.usage.cache_write.input_tokens": written > 0 ? written : undefined,
    "gen_ai.usage.reasoning.output_tokens": out?.reasoning,
  };
}

/** Attributes of a request's settings, by the protocols' names for them. */
const SETTING_ATTRIBUTES: Readonly<Record<string, string>> = {
  max_tokens: "gen_ai.request.max_tokens",
  max_completion_tokens: "gen_ai.request.max_tokens",
  max_output_tokens: "gen_ai.request.max_tokens",
  temperature: "gen_ai.request.temperature",
  top_p: "gen_ai.request.top_p",
  top_k: "gen_ai.request.top_k",
  seed: "gen_ai.request.seed",
  frequency_penalty: "gen_ai.request.frequency_penalty",
  presence_penalty: "gen_ai.request.presence_penalty",
  n: "gen_ai.request.choice.count",
  maxOutputTokens: "gen_ai.request.max_tokens",
  topP: "gen_ai.request.top_p",
  topK: "gen_ai.request.top_k",
  frequencyPenalty: "gen_ai.request.frequency_penalty",
  presencePenalty: "gen_ai.request.presence_penalty",
  candidateCount: "gen_ai.request.choice.count",
};

/** Maximum number of stop sequences of a span, and characters of each: vendors take a few short ones. */
const [MAX_STOPS, MAX_STOP_LENGTH] = [16, 256];

/** Returns the settings of the upstream request. Cannot fail: the body was parsed before. */
function settingAttributes({ body }: Attempt): Record<string, Attributes[string]> {
  if (body.scan === undefined) return {};
  const found: Record<string, Attributes[string]> = {};
  const take = (read: (name: string) => unknown) => {
    for (const [name, attribute] of Object.entries(SETTING_ATTRIBUTES)) {
      const value = read(name);
      if (typeof value === "number") found[attribute] = value;
    }
    const stop = read("stop") ?? read("stop_sequences") ?? read("stopSequences");
    const texts = [stop].flat().filter((each): each is string => typeof each === "string");
    if (texts.length > 0)
      found["gen_ai.request.stop_sequences"] = texts.slice(0, MAX_STOPS).map((each) => each.slice(0, MAX_STOP_LENGTH));
    if (read("stream") === true) found["gen_ai.request.stream"] = true;
  };
  take((name) => body.value(name));
  const nested = body.value("generationConfig");
  if (typeof nested === "object" && nested !== null) take((name) => (nested as Record<string, unknown>)[name]);
  return found;
}
