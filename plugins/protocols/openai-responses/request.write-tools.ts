/** Writes tools, and which of them shall be called. */
import { asObject, type JsonObject, type Tool, type ToolChoice } from "model-gateway/protocol";
import type { CustomNative, Entry, RequestNative, RestNative, WebSearchNative } from "./request.native.ts";
import { NAME } from "./request.read.ts";
import { merged, type Writing } from "./request.write.ts";
import { unmarked } from "./request.write-parts.ts";

/** Tools in their order; neighbours of a namespace stand in it together. */
export function writeTools(writing: Writing, tools: readonly Tool[]): JsonObject[] {
  const written: JsonObject[] = [];
  let group: { namespace: string; tools: JsonObject[] } | undefined;
  for (const tool of tools) {
    const json = writeTool(writing, tool);
    if (!json) continue;
    const namespace = "namespace" in tool ? tool.namespace : undefined;
    if (namespace === undefined) {
      group = undefined;
      written.push(json);
    } else if (group?.namespace === namespace) group.tools.push(json);
    else {
      group = { namespace, tools: [json] };
      written.push({ type: "namespace", name: namespace, description: namespace, tools: group.tools });
    }
  }
  return written;
}

/** The very entries that were read, each with the next of the tools. */
export function writeEntries(writing: Writing, entries: readonly Entry[], tools: Iterator<Tool>): JsonObject[] {
  const next = (): JsonObject => {
    const { value } = tools.next() as IteratorYieldResult<Tool>;
    return writeTool(writing, value) ?? {};
  };
  return entries.map((entry) => {
    if (entry === "tool") return next();
    const { namespace, rest, count } = entry;
    const nested = count === undefined ? undefined : Array.from({ length: count }, next);
    return merged(rest, { type: "namespace", name: namespace, tools: nested });
  });
}

function writeTool(writing: Writing, tool: Tool): JsonObject | undefined {
  unmarked(writing, tool);
  switch (tool.kind) {
    case "function": {
      const native = writing.native<RestNative>(tool);
      const { description, parameters } = tool;
      const strict = tool.strict ?? (native ? undefined : false);
      const schema = parameters ?? (native ? undefined : NO_PARAMETERS);
      return merged(native?.rest, {
        type: "function",
        name: writing.name(tool.name),
        description,
        parameters: schema,
        strict,
      });
    }
    case "custom": {
      const native = writing.native<CustomNative>(tool);
      const { description } = tool;
      const grammar = tool.grammar === undefined ? undefined : flat(tool.grammar);
      const format = native?.format ? merged(native.format, grammar ?? {}) : grammar;
      return merged(native?.rest, { type: "custom", name: writing.name(tool.name), description, format });
    }
    case "web_search":
      return writeWebSearch(writing, tool, writing.native<WebSearchNative>(tool));
    case "server":
      // One of another protocol is refused by the table of features, or offers nothing that is missed.
      return tool.protocol === NAME ? (tool.json as JsonObject) : undefined;
  }
}

/** A grammar has its members beside its type here, and nested below it in Chat. */
function flat(value: unknown): JsonObject {
  const { grammar, ...beside } = asObject(value) ?? {};
  return { ...beside, ...asObject(grammar) };
}

/** The schema of a function without arguments: the vendor wants one. */
const NO_PARAMETERS = { type: "object", properties: {} };

function writeWebSearch(
  writing: Writing,
  tool: Extract<Tool, { kind: "web_search" }>,
  native: WebSearchNative | undefined,
): JsonObject {
  const { allowed, blocked, location, size } = tool;
  if (!native && blocked)
    writing.terms.drop(tool.paths?.blocked ?? tool.at, "domains cannot be excluded from web search");
  if (tool.maxUses !== undefined)
    writing.terms.drop(tool.paths?.maxUses ?? tool.at, "the number of searches cannot be limited");
  const filters = merged(native?.filters, { allowed_domains: allowed, blocked_domains: native && blocked });
  return merged(native?.rest, {
    type: native?.type ?? "web_search",
    filters: native?.filters || Object.keys(filters).length > 0 ? filters : undefined,
    search_context_size: size,
    user_location: location && merged(native?.location ?? { type: "approximate" }, location),
  });
}

/** Which tool to call. */
export function writeChoice(writing: Writing, choice: ToolChoice | undefined): unknown {
  const native = writing.native<RequestNative>(writing.conversation);
  if (!choice) return undefined;
  switch (choice.mode) {
    case "named":
      return writeNamed(writing, choice, native);
    case "allowed":
      return native?.choice ? sameAllowed(choice, native) : newAllowed(writing, choice);
    default:
      return choice.mode;
  }
}

function writeNamed(
  writing: Writing,
  choice: Extract<ToolChoice, { mode: "named" }>,
  native: RequestNative | undefined,
): unknown {
  if (!choice.server) {
    const type = choice.custom ? "custom" : "function";
    return merged(native?.choice, { type, name: writing.name(choice.name) });
  }
  if (native?.choice) return native.choice;
  // The vendor has no choice of web search by itself: it is the only one that may be called. [S: ToolChoiceTypes]
  if (choice.name !== "web_search") return { type: choice.name };
  if (writing.conversation.tools.length === 1) return "required";
  return { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }] };
}

type Allowed = Extract<ToolChoice, { mode: "allowed" }>;

function newAllowed(writing: Writing, { required, names }: Allowed): JsonObject {
  const tools = names.map((name) => {
    const tool = writing.conversation.tools.find((tool) => "name" in tool && tool.name === name);
    // A tool of the vendor's has no name but its type.
    if (name === "web_search" || tool?.kind === "server") return { type: name };
    return { type: tool?.kind === "custom" ? "custom" : "function", name: writing.name(name) };
  });
  return { type: "allowed_tools", mode: required ? "required" : "auto", tools };
}

/** The very choice that was read. */
function sameAllowed({ required, names }: Allowed, { choice, mode, allowed }: RequestNative): JsonObject {
  return merged(choice, {
    type: "allowed_tools",
    mode: mode ? (required ? "required" : "auto") : undefined,
    tools: allowed?.map(({ named, rest }, i) => ({ ...rest, [named ? "name" : "type"]: names[i] })),
  });
}
