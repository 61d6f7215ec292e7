import {
  asObject,
  dropUndefined,
  type FeatureUse,
  Fields,
  objectFields,
  RawJson,
  type Tool,
} from "model-gateway/protocol";
import { readPartCacheMark } from "./wire.ts";

/** Decodes `tools`. @throws GatewayError with the tool's path. */
export function toolsOf(list: readonly unknown[], uses: FeatureUse[]): Tool[] {
  return list.map((value, n) => {
    const at = `tools.${n}`;
    const entry = objectFields(value, at, uses);
    const type = entry.text("type");
    if (type === "custom") return customOf(entry);
    // Recorded: a tool without a type is a function.
    if (type === "function" || (type === undefined && asObject(entry.members["function"]))) {
      uses.push({ feature: "tools", path: at });
      return functionOf(entry);
    }
    if (type === undefined) return entry.refuse("type", "must be a string.");
    uses.push({ feature: "tools_server", path: at });
    return { kind: "server", protocol: "openai-chat", name: type, json: value, at };
  });
}

function functionOf(entry: Fields): Tool {
  const inner = entry.object("function");
  if (!inner) return entry.refuse("function", "must be an object.");
  const tool = { ...readFunction(inner), at: entry.ownPath, ...readPartCacheMark(entry) };
  entry.declareUnread();
  return tool;
}

/** Decodes the older `functions`, which are nested under `function` elsewhere. */
export function functionsOf(list: readonly unknown[], uses: FeatureUse[]): Tool[] {
  return list.map((value, n) => {
    const at = `functions.${n}`;
    const inner = objectFields(value, at, uses);
    uses.push({ feature: "tools", path: at });
    const tool = readFunction(inner);
    inner.declareUnread();
    return tool;
  });
}

function readFunction(inner: Fields): Tool & { kind: "function" } {
  const name = requiredName(inner);
  const description = inner.text("description");
  const parameters = inner.any("parameters");
  const strict = inner.flag("strict");
  if (parameters !== undefined && !(parameters instanceof RawJson))
    return inner.refuse("parameters", "must be a JSON Schema.");
  if (strict) inner.declare("strict", "tools_strict");
  return {
    kind: "function",
    name,
    at: inner.ownPath,
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }),
  };
}

function customOf(entry: Fields): Tool {
  const inner = entry.object("custom");
  if (!inner) return entry.refuse("custom", "must be an object.");
  entry.declareSelf("tools_custom");
  const name = requiredName(inner);
  const description = inner.text("description");
  const format = inner.object("format");
  const grammar = format && grammarOf(format);
  entry.declareUnread();
  return {
    kind: "custom",
    name,
    at: entry.ownPath,
    ...(description === undefined ? {} : { description }),
    ...(grammar === undefined ? {} : { grammar, grammarAt: `${inner.ownPath}.format` }),
  };
}

/** Returns a custom tool's grammar: nested, or flat as in Responses. */
function grammarOf(format: Fields): { syntax?: string; definition?: string } | undefined {
  const type = format.text("type");
  const members = format.object("grammar") ?? format;
  const grammar = members.textMembers("syntax", "definition");
  if (grammar.definition !== undefined) return grammar;
  if (type !== "text") format.declareSelf("other");
  return undefined;
}

function requiredName(inner: Fields): string {
  const name = inner.text("name");
  if (name === undefined || name === "") return inner.refuse("name", "must be a name.");
  return name;
}

/** Decodes `web_search_options` as a tool. */
export function webSearchOf(options: Fields): Tool {
  options.declareSelf("web_search");
  const size = options.text("search_context_size");
  const userLocation = options.object("user_location");
  userLocation?.text("type");
  const location = userLocation?.object("approximate")?.textMembers("city", "region", "country", "timezone");
  return {
    kind: "web_search",
    at: options.ownPath,
    apart: true,
    paths: dropUndefined({ size: size && options.path("search_context_size"), location: userLocation?.ownPath }),
    ...dropUndefined({ size, location }),
  };
}
