import { asCount, asObject, defined, type Usage } from "model-gateway/protocol";
import { providerCost } from "../openai/usage.ts";

/** Embeddings only take tokens in; Voyage reports nothing but `total_tokens`, Mistral and Cohere also a 0 of output. */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw) return before;
  return {
    in: defined({ total: asCount(raw["prompt_tokens"]) ?? asCount(raw["total_tokens"]) }),
    out: defined({ total: asCount(raw["completion_tokens"]) }),
    ...defined({ providerCost: providerCost(raw) }),
    raw,
  };
}
