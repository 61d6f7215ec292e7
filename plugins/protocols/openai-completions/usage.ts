import { asCount, asObject, asText, atMost, dropUndefined, type Usage } from "model-gateway/protocol";

/** Decodes usage from a complete response, or from a chunk; `usage: null` is none. */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]);
  if (!raw) return before;
  const inParts = asObject(raw["prompt_tokens_details"]) ?? {};
  const outParts = asObject(raw["completion_tokens_details"]) ?? {};
  const input = asCount(raw["prompt_tokens"]);
  const output = asCount(raw["completion_tokens"]);
  return {
    in: dropUndefined({
      total: input,
      cached: atMost(asCount(inParts["cached_tokens"]), input),
      audio: asCount(inParts["audio_tokens"]),
    }),
    out: dropUndefined({
      total: output,
      reasoning: atMost(asCount(outParts["reasoning_tokens"]), output),
      audio: asCount(outParts["audio_tokens"]),
      acceptedPrediction: asCount(outParts["accepted_prediction_tokens"]),
      rejectedPrediction: asCount(outParts["rejected_prediction_tokens"]),
    }),
    ...dropUndefined({ tier: asText(body?.["service_tier"]) ?? before?.tier }),
    raw,
  };
}
