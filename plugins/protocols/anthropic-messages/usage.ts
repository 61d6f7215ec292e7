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

/**
 * Usage from `message_start`, from `message_delta` or from a whole message. The delta's numbers are totals, not
 * increments, and it may leave some out or say null, which keeps what `message_start` told. [S: the SDK's accumulator]
 */
export function usage(json: unknown, before?: Usage): Usage | undefined {
  const body = asObject(json);
  const told = asObject(asObject(body?.["message"])?.["usage"] ?? body?.["usage"]);
  return told ? normal(merged(asObject(before?.raw), told)) : before;
}

/** The most members that are kept of a stream's usage; the vendor has about ten. */
const MOST_MEMBERS = 100;

function merged(before: JsonObject | undefined, told: JsonObject): JsonObject {
  if (!before) return told;
  const full = Object.keys(before).length >= MOST_MEMBERS;
  const news = Object.entries(told).filter(([name, value]) => (Object.hasOwn(before, name) ? value !== null : !full));
  return { ...before, ...Object.fromEntries(news) };
}

/** The vendor's `input_tokens` leave out what was read from and written to the cache; ours do not. */
function normal(raw: JsonObject): Usage {
  const input = asCount(raw["input_tokens"]);
  const output = asCount(raw["output_tokens"]);
  const cached = asCount(raw["cache_read_input_tokens"]);
  const write = writes(raw);
  const total = input === undefined ? undefined : input + (cached ?? 0) + sum(write);
  const thinking = asCount(asObject(raw["output_tokens_details"])?.["thinking_tokens"]);
  return {
    in: defined({ total, cached, write }),
    out: defined({ total: output, reasoning: atMost(thinking, output) }),
    ...defined({ serverTools: counts(raw["server_tool_use"]), tier: asText(raw["service_tier"]) }),
    raw,
  };
}

/** Tokens written by time to live. The split can cover only a part of them, when server tools are used. [F] */
function writes(raw: JsonObject): Usage["in"]["write"] {
  const split = asObject(raw["cache_creation"]);
  const known = defined({
    "5m": asCount(split?.["ephemeral_5m_input_tokens"]),
    "1h": asCount(split?.["ephemeral_1h_input_tokens"]),
  });
  const written = asCount(raw["cache_creation_input_tokens"]);
  const isSplit = Object.keys(known).length > 0;
  if (written === undefined) return isSplit ? known : undefined;
  const rest = Math.max(0, written - sum(known));
  return isSplit && rest === 0 ? known : { ...known, unsplit: rest };
}

const sum = (parts: Usage["in"]["write"] = {}): number => Object.values(parts).reduce((all, tokens) => all + tokens, 0);
