import { asCount, asObject, asText, atMost, counts, defined, type JsonObject, type Usage } from "model-gateway";

/**
 * Usage of a whole completion, or of the chunk that carries it: alone with empty `choices`, or on the last chunk with
 * some (OpenRouter). `usage: null` says nothing. Groq's streams have it under `x_groq`, asked for or not.
 */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]) ?? asObject(asObject(body?.["x_groq"])?.["usage"]);
  if (!raw) return before;
  const tier = asText(body?.["service_tier"]) ?? asText(raw["service_tier"]) ?? before?.tier;
  const serverTools = counts(raw["server_tool_use_details"]);
  return { in: input(raw), out: output(raw), ...defined({ serverTools, tier }), raw };
}

function input(raw: JsonObject): Usage["in"] {
  const parts = asObject(raw["prompt_tokens_details"]) ?? {};
  const total = asCount(raw["prompt_tokens"]);
  // DeepSeek, Moonshot and Mistral have their own words beside or instead of the common one.
  const cached =
    asCount(parts["cached_tokens"]) ??
    asCount(raw["prompt_cache_hit_tokens"]) ??
    asCount(raw["cached_tokens"]) ??
    asCount(raw["num_cached_tokens"]);
  const written = asCount(parts["cache_write_tokens"]);
  return defined({
    total,
    // Recorded from Azure's Grok: more cached tokens than prompt tokens.
    cached: atMost(cached, total),
    write: written === undefined ? undefined : { unsplit: written },
    audio: asCount(parts["audio_tokens"]),
    image: asCount(parts["image_tokens"]),
    video: asCount(parts["video_tokens"]),
  });
}

function output(raw: JsonObject): Usage["out"] {
  const parts = asObject(raw["completion_tokens_details"]) ?? {};
  const total = totalOut(raw);
  return defined({
    total,
    reasoning: atMost(asCount(parts["reasoning_tokens"]), total),
    audio: asCount(parts["audio_tokens"]),
    image: asCount(parts["image_tokens"]),
    acceptedPrediction: asCount(parts["accepted_prediction_tokens"]),
    rejectedPrediction: asCount(parts["rejected_prediction_tokens"]),
  });
}

/** Recorded from xAI and Google: `completion_tokens` leaves the reasoning out, only `total_tokens` has it. */
function totalOut(raw: JsonObject): number | undefined {
  const completion = asCount(raw["completion_tokens"]);
  const rest = (asCount(raw["total_tokens"]) ?? 0) - (asCount(raw["prompt_tokens"]) ?? 0);
  return completion === undefined ? undefined : Math.max(completion, rest);
}
