import { asCount, asObject, asText, atMost, dropUndefined, type JsonObject, type Usage } from "model-gateway/protocol";
import { providerCost } from "../openai/usage.ts";

/** Decodes usage from a complete response or a `….completed` event; partial images have none. xAI reports only the cost. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json) ?? {};
  const raw = asObject(body["usage"]);
  if (!raw) return previous;
  const inputDetails = asObject(raw["input_tokens_details"]) ?? {};
  const outputDetails = asObject(raw["output_tokens_details"]) ?? {};
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  return {
    in: dropUndefined({
      total: input,
      cached: atMost(asCount(inputDetails["cached_tokens"]), input),
      image: asCount(inputDetails["image_tokens"]),
    }),
    // If the vendor reports only a total, all of it is for images.
    out: dropUndefined({
      total: output,
      image: raw["output_tokens_details"] ? asCount(outputDetails["image_tokens"]) : output,
    }),
    ...dropUndefined({ images: imageIn(body, previous), providerCost: providerCost(raw) }),
    raw,
  };
}

/** Counts the image of an event, for prices by the image; those of a whole answer are counted as it passes. */
function imageIn(event: JsonObject, previous: Usage | undefined): Usage["images"] {
  if (typeof (event["b64_json"] ?? event["url"]) !== "string") return previous?.images;
  const properties = dropUndefined({ size: asText(event["size"]), quality: asText(event["quality"]) });
  return { count: (previous?.images?.count ?? 0) + 1, ...properties };
}
