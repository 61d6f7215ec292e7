/** Reads the tools of a request, and which of them shall be called. */
import {
  defined,
  type Fields,
  invalidField,
  type JsonObject,
  RawJson,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import type { CustomNative, Entry, RequestNative, RestNative, WebSearchNative } from "./request.native.ts";
import { leave, leaveUsual, NAME, need, oneOf, peek, type Reading, type Usual } from "./request.read.ts";

const WEB_SEARCH = /^web_search(_preview)?(_\d{4}_\d{2}_\d{2})?$/;
/** Tools that agents offer to every model: without them the answer is the same but for a capability. */
const OFFERED: ReadonlySet<string> = new Set(["tool_search"]);
const USUAL: Usual = {
  defer_loading: [false],
  async: [false],
  external_web_access: [true],
  search_context_size: ["medium"],
};

/** The tools of one request, whichever way they came. */
export class ToolList {
  readonly tools: Tool[] = [];

  constructor(private readonly reading: Reading) {}

  /** Reads a list of tools; answers the entries it was made of. @throws GatewayError `invalid_field` */
  add(list: readonly unknown[], path: string): Entry[] {
    return list.map((value, i) => {
      const fields = this.reading.fields(value, `${path}.${i}`);
      const type = need(fields, "type");
      if (type === "namespace") return this.addNamespace(fields);
      this.tools.push(readTool(this.reading, fields, type));
      return "tool";
    });
  }

  private addNamespace(fields: Fields): Entry {
    const namespace = need(fields, "name");
    const nested = fields.list("tools");
    this.reading.say("tools_namespace", fields.at);
    nested?.forEach((value, i) => {
      const inner = this.reading.fields(value, `${fields.path("tools")}.${i}`);
      const tool = readTool(this.reading, inner, need(inner, "type"));
      const named = tool.kind === "function" || tool.kind === "custom";
      this.tools.push(named ? { ...tool, namespace } : tool);
    });
    return { namespace, ...(nested && { count: nested.length }), rest: fields.rest() };
  }
}

function readTool(reading: Reading, fields: Fields, type: string): Tool {
  if (type === "function") return readFunction(reading, fields);
  if (type === "custom") return readCustom(reading, fields);
  if (WEB_SEARCH.test(type)) return readWebSearch(reading, fields, type);
  reading.say(OFFERED.has(type) ? "other" : "tools_server", fields.at);
  return { kind: "server", protocol: NAME, name: type, json: fields.of, at: fields.at };
}

function readFunction(reading: Reading, fields: Fields): Tool {
  const name = need(fields, "name");
  const description = fields.text("description");
  const parameters = fields.any("parameters");
  if (parameters !== undefined && !(parameters instanceof RawJson))
    throw invalidField(fields.path("parameters"), `${fields.path("parameters")} must be a JSON Schema.`);
  const strict = fields.flag("strict");
  reading.say("tools", fields.at);
  if (strict) fields.declare("strict", "tools_strict");
  leaveUsual(fields, USUAL);
  return {
    kind: "function",
    name,
    at: fields.at,
    ...(description !== undefined && { description }),
    ...(parameters && { parameters }),
    ...(strict !== undefined && { strict }),
    ...reading.native<RestNative>({ rest: fields.rest() }),
  };
}

function readCustom(reading: Reading, fields: Fields): Tool {
  const name = need(fields, "name");
  const description = fields.text("description");
  const format = fields.object("format");
  const grammar = format && readGrammar(format);
  reading.say("tools_custom", fields.at);
  leaveUsual(fields, USUAL);
  return {
    kind: "custom",
    name,
    at: fields.at,
    ...(description !== undefined && { description }),
    ...(grammar && { grammar }),
    ...reading.native<CustomNative>({ rest: fields.rest(), ...(format && { format: format.rest() }) }),
  };
}

/** The members of a grammar; undefined for free text. */
function readGrammar(format: Fields): JsonObject | undefined {
  leaveUsual(format, { type: ["text"] });
  if (peek(format, "type") !== "grammar") return undefined;
  return { type: format.any("type"), syntax: format.text("syntax"), definition: format.text("definition") };
}

function readWebSearch(reading: Reading, fields: Fields, type: string): Tool {
  const filters = fields.object("filters");
  const allowed = filters && readDomains(filters, "allowed_domains");
  const blocked = filters && readDomains(filters, "blocked_domains");
  const place = fields.object("user_location");
  const location = place && readPlace(place);
  const size = peek(fields, "search_context_size") === "medium" ? undefined : fields.text("search_context_size");
  reading.say("web_search", fields.at);
  leaveUsual(fields, USUAL);
  return {
    kind: "web_search",
    at: fields.at,
    paths: defined({
      allowed: allowed && filters.path("allowed_domains"),
      blocked: blocked && filters.path("blocked_domains"),
      size: size && fields.path("search_context_size"),
      location: place?.at,
    }),
    ...(allowed && { allowed }),
    ...(blocked && { blocked }),
    ...(size !== undefined && { size }),
    ...(location && { location }),
    ...reading.native<WebSearchNative>({
      type,
      rest: fields.rest(),
      ...(filters && { filters: filters.rest() }),
      ...(place && { location: place.rest() }),
    }),
  };
}

function readDomains(filters: Fields, name: string): string[] | undefined {
  return filters.list(name)?.map((domain, i) => {
    if (typeof domain === "string") return domain;
    throw invalidField(`${filters.path(name)}.${i}`, `${filters.path(name)}.${i} must be a string.`);
  });
}

const PLACE = ["city", "region", "country", "timezone"] as const;

function readPlace(fields: Fields) {
  const place: Partial<Record<(typeof PLACE)[number], string>> = {};
  for (const name of PLACE) {
    const value = fields.text(name);
    if (value !== undefined) place[name] = value;
  }
  leave(fields, "type");
  return place;
}

/** Which tool to call, and what else that says. */
export interface Choice {
  toolChoice: ToolChoice;
  native?: Pick<RequestNative, "choice" | "mode" | "allowed">;
}

/** Which tool to call, and what else the choice says. @throws GatewayError `invalid_field` */
export function readChoice(reading: Reading, choice: unknown): Choice | undefined {
  if (choice === undefined) return undefined;
  reading.say("tool_choice", "tool_choice");
  if (choice === "auto" || choice === "none" || choice === "required") return { toolChoice: { mode: choice } };
  const fields = reading.fields(choice, "tool_choice");
  const type = need(fields, "type");
  if (type === "allowed_tools") return readAllowed(reading, fields);
  if (type === "function" || type === "custom") {
    const name = need(fields, "name");
    const toolChoice: ToolChoice = { mode: "named", name, ...(type === "custom" && { custom: true }) };
    return { toolChoice, native: { choice: fields.rest() } };
  }
  if (WEB_SEARCH.test(type)) fields.rest();
  else reading.say("tools_server", "tool_choice");
  const name = WEB_SEARCH.test(type) ? "web_search" : type;
  return { toolChoice: { mode: "named", name, server: true }, native: { choice: fields.of } };
}

function readAllowed(reading: Reading, fields: Fields): Choice {
  const mode = oneOf(reading, fields, "mode", ["auto", "required"]);
  const list = fields.list("tools");
  const tools = list?.map((tool, i) => reading.fields(tool, `${fields.path("tools")}.${i}`));
  reading.say("tool_choice_allowed", "tool_choice");
  // A tool of the vendor's has no name but its type.
  const named = tools?.map((tool) => tool.text("name") !== undefined) ?? [];
  const names = tools?.map((tool, i) => need(tool, named[i] ? "name" : "type")) ?? [];
  for (const tool of tools ?? []) leave(tool, "type", "server_label");
  const toolChoice: ToolChoice = { mode: "allowed", required: mode === "required", names };
  const allowed = tools?.map((tool, i) => ({ named: named[i] === true, rest: tool.rest() }));
  return { toolChoice, native: { choice: fields.rest(), mode: mode !== undefined, ...(allowed && { allowed }) } };
}
