import { asCount, asObject, dropUndefined, type JsonObject, type Usage } from "model-gateway/protocol";

const RESPONSE_DONE = Buffer.from('"response.done"');

/** Adds up usage of all responses of a connection: each `response.done` has its own. */
export function addMessageUsage(message: Buffer, previous?: Usage): Usage | undefined {
  if (!message.includes(RESPONSE_DONE)) return previous;
  const event = parseMessage(message);
  if (event?.["type"] !== "response.done") return previous;
  const usage = readUsage(event["response"]);
  return usage && previous ? addUsages(previous, usage) : (usage ?? previous);
}

/** Decodes the member `usage` of a response. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw) return previous;
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
function addUsages(first: Usage, second: Usage): Usage {
  const sum = (a: number | undefined, b: number | undefined) =>
    a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  return {
    in: dropUndefined({
      total: sum(first.in.total, second.in.total),
      cached: sum(first.in.cached, second.in.cached),
      audio: sum(first.in.audio, second.in.audio),
      image: sum(first.in.image, second.in.image),
      cachedAudio: sum(first.in.cachedAudio, second.in.cachedAudio),
      cachedImage: sum(first.in.cachedImage, second.in.cachedImage),
    }),
    out: dropUndefined({
      total: sum(first.out.total, second.out.total),
      audio: sum(first.out.audio, second.out.audio),
    }),
    raw: second.raw,
  };
}

function parseMessage(message: Buffer): JsonObject | undefined {
  try {
    return asObject(JSON.parse(message.toString()));
  } catch {
    return undefined;
  }
}
