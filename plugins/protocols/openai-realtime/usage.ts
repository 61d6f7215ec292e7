import { asCount, asObject, dropUndefined, type JsonObject, type Usage } from "model-gateway/protocol";

const RESPONSE_DONE = Buffer.from('"response.done"');

/** Adds up usage of all responses of a connection: each `response.done` has its own. */
export function addMessageUsage(message: Buffer, before?: Usage): Usage | undefined {
  if (!message.includes(RESPONSE_DONE)) return before;
  const event = parseMessage(message);
  if (event?.["type"] !== "response.done") return before;
  const usage = readUsage(event["response"]);
  return usage && before ? addUsages(before, usage) : (usage ?? before);
}

/** Decodes the member `usage` of a response. */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw) return before;
  const input = asObject(raw["input_token_details"]) ?? {};
  const cached = asObject(input["cached_tokens_details"]) ?? {};
  const output = asObject(raw["output_token_details"]) ?? {};
  return {
    in: dropUndefined({
      total: asCount(raw["input_tokens"]),
      cached: asCount(input["cached_tokens"]),
      audio: asCount(input["audio_tokens"]),
      image: asCount(input["image_tokens"]),
      cachedAudio: asCount(cached["audio_tokens"]),
      cachedImage: asCount(cached["image_tokens"]),
    }),
    out: dropUndefined({ total: asCount(raw["output_tokens"]), audio: asCount(output["audio_tokens"]) }),
    raw,
  };
}

/** Adds two usages; counts that neither has remain unknown. */
function addUsages(one: Usage, other: Usage): Usage {
  const sum = (a: number | undefined, b: number | undefined) =>
    a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  return {
    in: dropUndefined({
      total: sum(one.in.total, other.in.total),
      cached: sum(one.in.cached, other.in.cached),
      audio: sum(one.in.audio, other.in.audio),
      image: sum(one.in.image, other.in.image),
      cachedAudio: sum(one.in.cachedAudio, other.in.cachedAudio),
      cachedImage: sum(one.in.cachedImage, other.in.cachedImage),
    }),
    out: dropUndefined({ total: sum(one.out.total, other.out.total), audio: sum(one.out.audio, other.out.audio) }),
    raw: other.raw,
  };
}

function parseMessage(message: Buffer): JsonObject | undefined {
  try {
    return asObject(JSON.parse(message.toString()));
  } catch {
    return undefined;
  }
}
