import {
  asCount,
  asObject,
  asText,
  atMost,
  counts,
  defined,
  type JsonObject,
  type Usage,
} from "model-gateway/protocol";

/** Usage of a whole response or compaction, or of the lifecycle event whose `response` carries it. */
export function readUsage(json: unknown, before?: Usage): Usage | undefined {
  const top = asObject(json);
  const body = asObject(top?.["response"]) ?? top;
  const raw = asObject(body?.["usage"]);
  if (!raw) return before;
  const inParts = asObject(raw["input_tokens_details"]) ?? {};
  const outParts = asObject(raw["output_tokens_details"]) ?? {};
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  const tier = asText(body?.["service_tier"]) ?? before?.tier;
  const serverTools = counts(raw["server_side_tool_usage_details"]);
  return {
    in: defined({ total: input, cached: atMost(asCount(inParts["cached_tokens"]), input), write: written(inParts) }),
    out: defined({ total: output, reasoning: atMost(asCount(outParts["reasoning_tokens"]), output) }),
    ...defined({ serverTools, tier }),
    raw,
  };
}

/** Tokens written to the cache. Where the split by time to live covers only some of them, the rest stays unsplit. */
function written(parts: JsonObject): Usage["in"]["write"] {
  const all = asCount(parts["cache_write_tokens"]);
  const split = asObject(parts["cache_write_tokens_details"]);
  const half = asCount(split?.["ttl_30m_tokens"]);
  const twelve = asCount(split?.["ttl_12h_tokens"]);
  if (half === undefined && twelve === undefined) return all === undefined ? undefined : { unsplit: all };
  const rest = (all ?? 0) - (half ?? 0) - (twelve ?? 0);
  return defined({ "30m": half, "12h": twelve, unsplit: rest > 0 ? rest : undefined });
}
