import { asObject, asText, defined, type Feature, type JsonObject, RawJson, type Tool } from "model-gateway/protocol";
import type { Reading } from "./request.reading.ts";
import { NAME } from "./words.ts";

const WEB_SEARCH = /^web_search_\d+$/;
/** Finds tools that the request defers. Other vendors get all tools from the start. */
const TOOL_SEARCH = /^tool_search_tool_/;

/** Members of a function that only say when it is shown, or how its arguments are streamed. */
const COSMETIC: ReadonlySet<string> = new Set(["defer_loading", "eager_input_streaming"]);
const FUNCTION = ["type", "name", "description", "input_schema", "strict", "cache_control"];
const SEARCH = ["type", "name", "allowed_domains", "blocked_domains", "max_uses", "user_location", "cache_control"];

/** Reads `tools`. */
export function toolsOf(reading: Reading, value: unknown): Tool[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) return reading.wrong("tools", "must be a list.");
  return value.map((each, i) => {
    const at = `tools.${i}`;
    const tool = asObject(each) ?? reading.wrong(at, "must be an object.");
    const type = tool["type"] ?? "custom";
    if (typeof type !== "string") return reading.wrong(`${at}.type`, "must be a string.");
    if (type === "custom") return functionTool(reading, tool, at);
    return WEB_SEARCH.test(type) ? webSearch(reading, tool, at) : serverTool(reading, tool, at, type);
  });
}

const marked = (reading: Reading, tool: JsonObject, at: string) => {
  const cache = reading.mark(tool, at);
  return { at, ...(cache ? { cache } : {}) };
};

function functionTool(reading: Reading, tool: JsonObject, at: string): Tool {
  const schema = tool["input_schema"];
  const more = defined({
    description: reading.maybeText(tool, "description", at),
    strict: reading.flag(tool, "strict", at),
  });
  if (schema !== undefined && !(schema instanceof RawJson && schema.text.startsWith("{")))
    return reading.wrong(`${at}.input_schema`, "must be an object.");
  reading.say("tools", at);
  if (more.strict === true) reading.say("tools_strict", `${at}.strict`);
  unknown(reading, tool, FUNCTION, at);
  return {
    kind: "function",
    name: reading.text(tool, "name", at),
    ...more,
    ...(schema === undefined ? {} : { parameters: schema }),
    ...marked(reading, tool, at),
    ...reading.native(tool, ["name", "input_schema", ...Object.keys(more)]),
  };
}

function unknown(reading: Reading, tool: JsonObject, known: readonly string[], at: string): void {
  for (const name in tool) {
    if (known.includes(name) || tool[name] === null) continue;
    const feature: Feature = COSMETIC.has(name) ? "cosmetic" : "other";
    reading.say(feature, `${at}.${name}`);
  }
}

function webSearch(reading: Reading, tool: JsonObject, at: string): Tool {
  reading.say("web_search", at);
  unknown(reading, tool, SEARCH, at);
  const allowed = reading.texts(tool, "allowed_domains", at);
  const blocked = reading.texts(tool, "blocked_domains", at);
  const maxUses = reading.number(tool, "max_uses", at);
  const place = reading.object(tool, "user_location", at);
  const location = place && placeOf(reading, place, `${at}.user_location`);
  const plain = place && location && isPlain(place, location);
  const read = { allowed_domains: allowed, blocked_domains: blocked, max_uses: maxUses };
  return {
    kind: "web_search",
    ...defined({ allowed, blocked, maxUses, location }),
    paths: defined({
      allowed: allowed && `${at}.allowed_domains`,
      blocked: blocked && `${at}.blocked_domains`,
      maxUses: maxUses === undefined ? undefined : `${at}.max_uses`,
      location: location && `${at}.user_location`,
    }),
    ...marked(reading, tool, at),
    ...reading.native(tool, [...Object.keys(defined(read)), ...(plain ? ["user_location"] : [])]),
  };
}

const PLACE = ["city", "region", "country", "timezone"] as const;

function placeOf(reading: Reading, place: JsonObject, at: string): Record<string, string> {
  reading.others(place, place["type"] === "approximate" ? ["type", ...PLACE] : PLACE, at);
  const words = PLACE.map((name) => [name, reading.maybeText(place, name, at)] as const);
  return Object.fromEntries(words.filter((word): word is [(typeof PLACE)[number], string] => word[1] !== undefined));
}

/** True when our words hold all of a place. */
const isPlain = (place: JsonObject, words: object): boolean =>
  Object.keys(place).length === Object.keys(words).length + 1 && place["type"] === "approximate";

function serverTool(reading: Reading, tool: JsonObject, at: string, type: string): Tool {
  reading.say(TOOL_SEARCH.test(type) ? "other" : "tools_server", at);
  return { kind: "server", protocol: NAME, name: asText(tool["name"]) ?? type, json: tool, at };
}
