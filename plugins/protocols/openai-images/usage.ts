import { asCount, asObject, atMost, defined, type Usage } from "model-gateway/protocol";
import { providerCost } from "../openai/usage.ts";

/**
 * Usage of a whole answer, or of the `….completed` event that carries it; partial images carry none. xAI reports only
 * what it costs.
 */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw) return before;
  const inParts = asObject(raw["input_tokens_details"]) ?? {};
  const outParts = asObject(raw["output_tokens_details"]) ?? {};
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  return {
    in: defined({
      total: input,
      cached: atMost(asCount(inParts["cached_tokens"]), input),
      image: asCount(inParts["image_tokens"]),
    }),
    // All that comes out is an image, where the vendor does not split it.
    out: defined({ total: output, image: raw["output_tokens_details"] ? asCount(outParts["image_tokens"]) : output }),
    ...defined({ providerCost: providerCost(raw) }),
    raw,
  };
}
