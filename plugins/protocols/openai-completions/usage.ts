import { asObject, type Usage } from "model-gateway/protocol";
import { readCompletionUsage } from "../openai/usage.ts";

/** Decodes usage from a complete response, or from a chunk; `usage: null` is none. */
export function readUsage(json: unknown, previous?: Usage): Usage | undefined {
  const body = asObject(json);
  const raw = asObject(body?.["usage"]);
  return raw ? readCompletionUsage(raw, body, previous) : previous;
}
