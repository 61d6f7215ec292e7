import { asList, asObject, asText, type Feature, type JsonObject, RawJson, type Tool } from "model-gateway";
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
  const description = asText(tool["description"]);
  const strict = tool["strict"];
  if (schema !== undefined && !(schema instanceof RawJson))
    return reading.wrong(`${at}.input_schema`, "must be an object.");
  reading.say("tools", at);
  if (strict === true) reading.say("tools_strict", `${at}.strict`);
  unknown(reading, tool, FUNCTION, at);
  const taken = ["name", "input_schema", ...(description === undefined ? [] : ["description"])];
  return {
    kind: "function",
    name: reading.text(tool, "name", at),
    ...(description === undefined ? {} : { description }),
    ...(schema === undefined ? {} : { parameters: schema }),
    ...(typeof strict === "boolean" ? { strict } : {}),
    ...marked(reading, tool, at),
    ...reading.native(tool, typeof strict === "boolean" ? [...taken, "strict"] : taken),
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
  const lists = { allowed: tool["allowed_domains"], blocked: tool["blocked_domains"] };
  const uses = tool["max_uses"];
  const place = asObject(tool["user_location"]);
  const taken = ["allowed_domains", "blocked_domains", "max_uses"].filter((name) => tool[name] !== null);
  return {
    kind: "web_search",
    ...(Array.isArray(lists.allowed) ? { allowed: domains(lists.allowed) } : {}),
    ...(Array.isArray(lists.blocked) ? { blocked: domains(lists.blocked) } : {}),
    ...(typeof uses === "number" ? { maxUses: uses } : {}),
    ...(place ? { location: placeOf(place) } : {}),
    ...marked(reading, tool, at),
    ...reading.native(tool, place && isPlain(place) ? [...taken, "user_location"] : taken),
  };
}

const domains = (list: unknown): string[] => asList(list).filter((each) => typeof each === "string");

const PLACE = ["city", "region", "country", "timezone"] as const;

function placeOf(place: JsonObject) {
  const known = PLACE.filter((name) => typeof place[name] === "string");
  return Object.fromEntries(known.map((name) => [name, place[name] as string]));
}

/** True when our words hold all of a place. */
const isPlain = (place: JsonObject): boolean =>
  Object.keys(place).length === Object.keys(placeOf(place)).length + 1 && place["type"] === "approximate";

function serverTool(reading: Reading, tool: JsonObject, at: string, type: string): Tool {
  reading.say(TOOL_SEARCH.test(type) ? "other" : "tools_server", at);
  return { kind: "server", protocol: NAME, name: asText(tool["name"]) ?? type, json: tool, at };
}
