import { asCount, asObject, dropUndefined, type Usage } from "model-gateway/protocol";
import { providerCost } from "../openai/usage.ts";

/** Decodes usage, which has input only; Voyage reports nothing but `total_tokens`, Mistral and Cohere also 0 output tokens. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const raw = asObject(asObject(json)?.["usage"]);
  if (!raw) return previous;
  return {
    in: dropUndefined({ total: asCount(raw["prompt_tokens"]) ?? asCount(raw["total_tokens"]) }),
    out: dropUndefined({ total: asCount(raw["completion_tokens"]) }),
    ...dropUndefined({ providerCost: providerCost(raw) }),
    raw,
  };
}
