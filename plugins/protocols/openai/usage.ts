import { defined, type JsonObject, type Usage } from "model-gateway/protocol";

/**
 * Usage as this protocol tells it: parts are included in their totals, and what is not known is left out. The SDKs need
 * the three totals.
 */
export function writeUsage(usage: Usage): JsonObject {
  const { in: input, out: output } = usage;
  const writes = input.write && Object.values(input.write).reduce((sum, tokens) => sum + tokens, 0);
  const inParts = defined({
    cached_tokens: input.cached,
    cache_write_tokens: writes,
    audio_tokens: input.audio,
    image_tokens: input.image,
    video_tokens: input.video,
  });
  const outParts = defined({
    reasoning_tokens: output.reasoning,
    audio_tokens: output.audio,
    image_tokens: output.image,
    accepted_prediction_tokens: output.acceptedPrediction,
    rejected_prediction_tokens: output.rejectedPrediction,
  });
  return {
    prompt_tokens: input.total ?? 0,
    completion_tokens: output.total ?? 0,
    total_tokens: (input.total ?? 0) + (output.total ?? 0),
    ...(Object.keys(inParts).length > 0 ? { prompt_tokens_details: inParts } : {}),
    ...(Object.keys(outParts).length > 0 ? { completion_tokens_details: outParts } : {}),
  };
}
