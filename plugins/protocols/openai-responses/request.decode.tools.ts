import { dropUndefined, type Fields, ownProperty, RawJson, type Tool } from "model-gateway/protocol";
import { OPENAI_RESPONSES, WEB_SEARCH } from "./wire.ts";

/** Tools that agents offer to every model: without them only a capability is missing. */
const OPTIONAL_TOOLS: ReadonlySet<string> = new Set(["tool_search"]);
/** Members of tools with values that are the same as absent. */
const TOOL_DEFAULTS = {
  defer_loading: [false],
  async: [false],
  external_web_access: [true],
  search_context_size: ["medium"],
};

/** Decodes the member `tools` of a request or of an item. @throws GatewayError `invalid_field` */
export function readToolList(fields: Fields, tools: Tool[]): void {
  for (const tool of fields.objects("tools") ?? []) {
    const type = tool.required("type");
    if (type === "namespace") readNamespace(tool, tools);
    else tools.push(readTool(tool, type));
  }
}

function readNamespace(fields: Fields, tools: Tool[]): void {
  const namespace = fields.required("name");
  fields.declareSelf("tools_namespace");
  for (const inner of fields.objects("tools") ?? []) {
    const tool = readTool(inner, inner.required("type"));
    const isClientTool = tool.kind === "function" || tool.kind === "custom";
    tools.push(isClientTool ? { ...tool, namespace } : tool);
  }
  fields.declareUnread();
}

function readTool(fields: Fields, type: string): Tool {
  const reader = WEB_SEARCH.test(type) ? readWebSearch : ownProperty(TOOL_READERS, type);
  if (!reader) {
    fields.declareSelf(OPTIONAL_TOOLS.has(type) ? "other" : "tools_server");
    return { kind: "server", protocol: OPENAI_RESPONSES, name: type, json: fields.members, at: fields.ownPath };
  }
  const tool = reader(fields);
  fields.ignoreDefaults(TOOL_DEFAULTS);
  fields.declareUnread();
  return tool;
}

const TOOL_READERS: Readonly<Record<string, (fields: Fields) => Tool>> = {
  function: readFunction,
  custom: readCustom,
};

function readFunction(fields: Fields): Tool {
  const name = fields.required("name");
  const description = fields.text("description");
  const parameters = fields.any("parameters");
  if (parameters !== undefined && !(parameters instanceof RawJson))
    return fields.refuse("parameters", "must be a JSON Schema.");
  const strict = fields.flag("strict");
  fields.declareSelf("tools");
  if (strict) fields.declare("strict", "tools_strict");
  return { kind: "function", name, at: fields.ownPath, ...dropUndefined({ description, parameters, strict }) };
}

function readCustom(fields: Fields): Tool {
  const name = fields.required("name");
  const description = fields.text("description");
  const format = fields.object("format");
  const grammar = format && readGrammar(format);
  fields.declareSelf("tools_custom");
  const grammarAt = grammar && format?.ownPath;
  return { kind: "custom", name, at: fields.ownPath, ...dropUndefined({ description, grammar, grammarAt }) };
}

/** Returns a grammar; undefined for free text. */
function readGrammar(format: Fields): { syntax?: string; definition?: string } | undefined {
  format.ignoreDefaults({ type: ["text", "grammar"] });
  if (format.members["type"] !== "grammar") return undefined;
  return format.textMembers("syntax", "definition");
}

function readWebSearch(fields: Fields): Tool {
  const filters = fields.object("filters");
  const allowed = filters && readDomains(filters, "allowed_domains");
  const blocked = filters && readDomains(filters, "blocked_domains");
  const userLocation = fields.object("user_location");
  userLocation?.ignore("type");
  const location = userLocation?.textMembers("city", "region", "country", "timezone");
  const size = fields.members["search_context_size"] === "medium" ? undefined : fields.text("search_context_size");
  fields.declareSelf("web_search");
  return {
    kind: "web_search",
    at: fields.ownPath,
    paths: dropUndefined({
      allowed: allowed && filters.path("allowed_domains"),
      blocked: blocked && filters.path("blocked_domains"),
      size: size && fields.path("search_context_size"),
      location: userLocation?.ownPath,
    }),
    ...dropUndefined({ allowed, blocked, size, location }),
  };
}

function readDomains(filters: Fields, name: string): string[] | undefined {
  return filters.list(name)?.map((domain, i) => {
    return typeof domain === "string" ? domain : filters.refuse(`${name}.${i}`, "must be a string.");
  });
}
