import {
  asObject,
  type Conversation,
  defined,
  estimate,
  type JsonObject,
  RawJson,
  type ResponseContext,
  type Usage,
} from "model-gateway/protocol";

/** Tokens written to the cache, with those read from it at most the whole input: some vendors count a token twice. */
function written({ in: { total, cached, write } }: Usage): number | undefined {
  if (!write) return undefined;
  const sum = Object.values(write).reduce((all, tokens) => all + tokens, 0);
  return total === undefined ? sum : Math.min(sum, Math.max(0, total - (cached ?? 0)));
}

/** The vendor's input leaves out what was read from and written to the cache; ours does not. */
function plainInput(usage: Usage): number | undefined {
  const { total, cached } = usage.in;
  return total === undefined ? undefined : Math.max(0, total - (cached ?? 0) - (written(usage) ?? 0));
}

const thought = (usage: Usage): JsonObject | undefined =>
  usage.out.reasoning === undefined ? undefined : { thinking_tokens: usage.out.reasoning };

/** The vendor's tools by its own names of their counts; those of others are not among them. */
const SERVER_TOOLS = ["web_search_requests", "web_fetch_requests"];

function serverTools({ serverTools: told }: Usage): JsonObject | undefined {
  if (!told || !SERVER_TOOLS.some((name) => name in told)) return undefined;
  return Object.fromEntries(SERVER_TOOLS.map((name) => [name, told[name] ?? 0]));
}

/** Tokens written for times that the vendor does not have count in the sum only. */
function split({ in: { write } }: Usage): JsonObject | undefined {
  if (write?.["5m"] === undefined && write?.["1h"] === undefined) return undefined;
  return { ephemeral_5m_input_tokens: write["5m"] ?? 0, ephemeral_1h_input_tokens: write["1h"] ?? 0 };
}

/**
 * Usage for `message_start`: what is known by then. Input that nobody told yet is estimated, because clients take the
 * first number for the truth until the last event; output is 0, because some clients add the two. [S: LangChain]
 */
export function firstUsage(usage: Usage | undefined, { conversation: asked }: ResponseContext): JsonObject {
  return {
    input_tokens: (usage && plainInput(usage)) ?? estimate(asked, bytesOf(asked)),
    cache_creation_input_tokens: (usage && written(usage)) ?? null,
    cache_read_input_tokens: usage?.in.cached ?? null,
    ...defined({ cache_creation: usage && split(usage), service_tier: usage?.tier }),
    output_tokens: 0,
  };
}

/**
 * About as many bytes as a request has as JSON. Its prompt is at hand and is walked once: writing the request again, which
 * may be megabytes, would hold up the answer's first word.
 */
function bytesOf({ turns, tools, format }: Conversation): number {
  let bytes = 0;
  const rest: unknown[] = [turns, tools, format?.schema];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value === "string") bytes += Buffer.byteLength(value) + 3;
    else if (value instanceof RawJson) bytes += Buffer.byteLength(value.text) + 1;
    else if (Array.isArray(value)) for (const each of value) rest.push(each);
    else if (typeof value === "object")
      for (const name in value) {
        bytes += name.length + 3;
        rest.push((value as JsonObject)[name]);
      }
    else bytes += 5;
  }
  return bytes;
}

/** Usage for `message_delta`: totals. Input that nobody told is 0 at last: an estimate is no count. */
export function lastUsage(usage: Usage | undefined): JsonObject {
  const known = usage && {
    input_tokens: plainInput(usage),
    cache_creation_input_tokens: written(usage),
    cache_read_input_tokens: usage.in.cached,
    output_tokens_details: thought(usage),
    server_tool_use: serverTools(usage),
    cache_creation: split(usage),
    service_tier: usage.tier,
  };
  return { input_tokens: 0, ...(known && defined(known)), output_tokens: usage?.out.total ?? 0 };
}

/** The vendor's own usage object, with the numbers from the normal form and the rest as it was. */
export function exactUsage(usage: Usage, raw: JsonObject): JsonObject {
  const known: JsonObject = {
    input_tokens: plainInput(usage),
    cache_creation_input_tokens: written(usage),
    cache_read_input_tokens: usage.in.cached,
    output_tokens: usage.out.total,
    output_tokens_details: merged(raw["output_tokens_details"], thought(usage)),
    cache_creation: merged(raw["cache_creation"], split(usage)),
    server_tool_use: merged(raw["server_tool_use"], usage.serverTools),
    service_tier: usage.tier,
  };
  const value = (name: string): unknown => (raw[name] === null ? null : (known[name] ?? raw[name]));
  return Object.fromEntries(Object.keys(raw).map((name) => [name, value(name)]));
}

const merged = (raw: unknown, known: JsonObject | undefined): JsonObject | undefined =>
  known && { ...asObject(raw), ...known };
