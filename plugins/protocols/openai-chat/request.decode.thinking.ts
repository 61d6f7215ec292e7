import { type Conversation, type Fields, invalidField, isObject, type ReasoningConfig } from "model-gateway/protocol";
import { effortOf } from "../openai/wire.ts";

/** `reasoning_effort`, or OpenRouter's `reasoning`. */
export function readThinking(body: Fields, into: Conversation): void {
  const config: ReasoningConfig = {};
  readEffort(body, "reasoning_effort", config);
  const nested = isObject(body.of["reasoning"]) ? body.object("reasoning") : undefined;
  if (nested) readNestedThinking(nested, config);
  if (Object.keys(config).length > 0) into.reasoning = config;
}

/** A word that is no effort is left to be dropped: vendors have their own, like `default`. */
function readEffort(fields: Fields, name: string, config: ReasoningConfig): void {
  const effort = effortOf(fields.of[name]);
  if (effort === undefined) return;
  config.effort = effort;
  fields.any(name);
  fields.declare(name, "reasoning_effort");
}

function readNestedThinking(nested: Fields, config: ReasoningConfig): void {
  readEffort(nested, "effort", config);
  const budget = nested.number("max_tokens");
  if (budget !== undefined) {
    config.budget = budget;
    nested.declare("max_tokens", "reasoning_budget");
  }
  if (nested.of["exclude"] === true) {
    config.show = false;
    nested.leave("exclude", "reasoning_summary");
  }
  const enabled = nested.of["enabled"];
  if (typeof enabled === "boolean" && config.effort === undefined && budget === undefined) {
    // OpenRouter's documents: enabled alone means medium.
    config.effort = enabled ? "medium" : "none";
    nested.leave("enabled", "reasoning_effort");
  } else nested.leave("enabled");
}

/** What Google's endpoint for this protocol takes besides: `extra_body.google`. [D: OpenAI compatibility of the Gemini API] */
export function readGoogle(body: Fields, into: Conversation): void {
  const extra = isObject(body.of["extra_body"]) ? body.object("extra_body") : undefined;
  const google = extra?.object("google");
  if (!google) return;
  const handle = google.text("cached_content");
  if (handle !== undefined) {
    into.cacheHandle = handle;
    google.declare("cached_content", "cache_handle");
  }
  google.leave("safety_settings", "safety");
  const thinking = google.object("thinking_config");
  if (thinking) readThinkingConfig(thinking, into);
}

const BUDGET = "thinking_budget";
const LEVEL = "thinking_level";

/** Tokens or a level, not both, and neither beside an effort, as the vendor has it; thoughts are shown to who asks for them. */
function readThinkingConfig(thinking: Fields, into: Conversation): void {
  const asked = [BUDGET, LEVEL].filter((name) => thinking.has(name));
  const other = into.reasoning?.effort === undefined ? asked[1] && thinking.path(asked[1]) : "reasoning_effort";
  if (asked[0] !== undefined && other !== undefined) {
    const path = thinking.path(asked[0]);
    throw invalidField(path, `${path} cannot be used together with ${other}.`, "Send one of them.");
  }
  const config: ReasoningConfig = { ...into.reasoning };
  const budget = thinking.number(BUDGET);
  if (budget !== undefined) {
    config.budget = budget;
    if (budget === 0) config.effort = "none";
    thinking.declare(BUDGET, "reasoning_budget");
  }
  const level = effortOf(thinking.text(LEVEL)?.toLowerCase());
  if (level !== undefined) {
    config.effort = level;
    thinking.declare(LEVEL, "reasoning_effort");
  } else thinking.leave(LEVEL, "other");
  const show = thinking.flag("include_thoughts");
  if (show !== undefined) thinking.declare("include_thoughts", "reasoning_summary");
  if (show !== undefined || asked.length > 0) config.show = show ?? false;
  if (Object.keys(config).length > 0) into.reasoning = config;
}
