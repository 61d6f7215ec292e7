import { asCount, asObject, asText, atMost, dropUndefined, type Usage } from "model-gateway/protocol";

/** Decodes usage from a complete response, or from a chunk; `usage: null` is none. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]);
  if (!raw) return previous;
  const inputDetails = asObject(raw["prompt_tokens_details"]) ?? {};
  const outputDetails = asObject(raw["completion_tokens_details"]) ?? {};
  const input = asCount(raw["prompt_tokens"]);
  const output = asCount(raw["completion_tokens"]);
  return {
    in: dropUndefined({
      total: input,
      cached: atMost(asCount(inputDetails["cached_tokens"]), input),
      audio: asCount(inputDetails["audio_tokens"]),
    }),
    out: dropUndefined({
      total: output,
      reasoning: atMost(asCount(outputDetails["reasoning_tokens"]), output),
      audio: asCount(outputDetails["audio_tokens"]),
      acceptedPrediction: asCount(outputDetails["accepted_prediction_tokens"]),
      rejectedPrediction: asCount(outputDetails["rejected_prediction_tokens"]),
    }),
    ...dropUndefined({ tier: asText(body?.["service_tier"]) ?? previous?.tier }),
    raw,
  };
}
