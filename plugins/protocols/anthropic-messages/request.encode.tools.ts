import {
  asObject,
  asText,
  type Conversation,
  type EncodeContext,
  type JsonObject,
  RawJson,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { cacheControl, type Marks } from "./request.encode.blocks.ts";
import type { OwnForm } from "./request.reading.ts";
import { heldSchema } from "./request.schema.ts";
import { NAME, pathOf } from "./words.ts";

const CHARACTERS = "a-zA-Z0-9_-";
const LONGEST = 128;

/** What tells tools of one name apart. */
interface Named {
  name: string;
  namespace?: string;
  custom?: boolean;
}

/**
 * A tool's name as the vendor takes it, `^[a-zA-Z0-9_-]{1,128}$`. A namespace goes into the name; that it does, or that
 * the tool takes free text, is remembered for the answer.
 */
export function toolName({ name, namespace, custom }: Named, terms: EncodeContext): string {
  const full = namespace === undefined ? name : `${namespace}__${name}`;
  const fitted = terms.names.fit(full, CHARACTERS, LONGEST);
  if (namespace !== undefined || custom)
    terms.names.mark(fitted, {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(custom ? { custom } : {}),
    });
  return fitted;
}

/** Writes `tools`; undefined when there are none. Without `marks` they are written exactly as they were read. */
export function toolsOf(
  conversation: Conversation,
  terms: EncodeContext,
  marks: Marks | undefined,
): JsonObject[] | undefined {
  const tools = allowed(conversation, terms).flatMap((tool): JsonObject[] => {
    const json = toolOf(tool, terms, marks === undefined);
    if (!json) return [];
    if (tool.cache) json["cache_control"] = cacheControl(tool.cache, tool.at, terms);
    if (marks && tool.cache) marks.add(json, tool.at);
    const own = marks ? undefined : (tool.native as OwnForm | undefined);
    return [own?.rest ? { ...json, ...own.rest } : json];
  });
  return tools.length > 0 ? tools : undefined;
}

/** The tools without those that a choice among some of them leaves out: the vendor has no such choice. */
function allowed(conversation: Conversation, terms: EncodeContext): readonly Tool[] {
  const { tools, toolChoice } = conversation;
  if (toolChoice?.mode !== "allowed") return tools;
  terms.change(chosenAt(conversation), "only the allowed tools are sent");
  const names = new Set(toolChoice.names);
  return tools.filter((tool) => {
    const stays = names.has(tool.kind === "web_search" ? "web_search" : tool.name);
    if (!stays) terms.change(tool.at, "not among the allowed tools");
    return stays;
  });
}

function toolOf(tool: Tool, terms: EncodeContext, exact: boolean): JsonObject | undefined {
  switch (tool.kind) {
    case "function":
      return functionTool(tool, terms, exact);
    case "custom":
      return customTool(tool, terms);
    case "web_search":
      return webSearch(tool, terms, exact);
    case "server":
      return tool.protocol === NAME ? (tool.json as JsonObject) : undefined;
  }
}

function functionTool(tool: Extract<Tool, { kind: "function" }>, terms: EncodeContext, exact: boolean): JsonObject {
  const { description, strict, parameters } = tool;
  if (exact) return { name: tool.name, description, input_schema: parameters, strict };
  const name = toolName(tool, terms);
  const schema = schemaOf(parameters);
  const held = strict === true ? heldSchema(schema, tool.at, terms) : schema;
  return { name, description, input_schema: held, ...(strict ? { strict } : {}) };
}

const NO_ARGUMENTS = new RawJson('{"type":"object","properties":{}}');

/** A schema as it came. The vendor wants `type: "object"` said, which some clients leave out. */
function schemaOf(parameters: RawJson | undefined): RawJson {
  const schema = asObject(parameters?.value);
  if (!parameters || !schema || Object.keys(schema).length === 0) return NO_ARGUMENTS;
  if (schema["type"] !== undefined) return parameters;
  return new RawJson(parameters.text.replace("{", '{"type":"object",'));
}

/** A tool that takes free text, as a function of one string. The engine unwraps the string in the answer. */
function customTool(tool: Extract<Tool, { kind: "custom" }>, terms: EncodeContext): JsonObject {
  const grammar = grammarOf(tool.grammar);
  if (grammar !== undefined) terms.change(tool.at, "the grammar is told to the model, not enforced");
  return {
    name: toolName({ ...tool, custom: true }, terms),
    description: tool.description,
    input_schema: {
      type: "object",
      properties: { input: { type: "string", description: grammar } },
      required: ["input"],
      additionalProperties: false,
    },
  };
}

/** The text of a grammar; the two protocols that have one nest it differently. */
function grammarOf(value: unknown): string | undefined {
  const grammar = asObject(asObject(value)?.["grammar"]) ?? asObject(value);
  return asText(grammar?.["definition"]);
}

/** The version of the search tool that every model with web search has. [D] */
const WEB_SEARCH = "web_search_20250305";

function webSearch(tool: Extract<Tool, { kind: "web_search" }>, terms: EncodeContext, exact: boolean): JsonObject {
  const { allowed, blocked, maxUses, size, location } = tool;
  if (size !== undefined) terms.drop(`${tool.at}.search_context_size`, "This model's search has no amount of results");
  return {
    ...(exact ? {} : { type: WEB_SEARCH, name: "web_search" }),
    allowed_domains: allowed,
    blocked_domains: blocked,
    max_uses: maxUses,
    user_location: location && { type: "approximate", ...location },
  };
}

/** Writes `tool_choice`; undefined when the vendor's own way is meant. */
export function choiceOf(conversation: Conversation, terms: EncodeContext): JsonObject | undefined {
  const { toolChoice, parallel } = conversation;
  const alone = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (!toolChoice) return parallel === false ? { type: "auto", ...alone } : undefined;
  switch (toolChoice.mode) {
    case "auto":
      return { type: "auto", ...alone };
    case "none":
      return { type: "none" };
    case "required":
      return { type: "any", ...alone };
    case "allowed":
      return { type: toolChoice.required ? "any" : "auto", ...alone };
    case "named":
      return { type: "tool", name: namedTool(conversation, toolChoice, terms), ...alone };
  }
}

function namedTool(
  { tools }: Conversation,
  choice: Extract<ToolChoice, { mode: "named" }>,
  terms: EncodeContext,
): string {
  if (choice.server) return choice.name;
  const tool = tools.find((each) => (each.kind === "function" || each.kind === "custom") && each.name === choice.name);
  if (tool?.kind !== "function" && tool?.kind !== "custom") return toolName({ name: choice.name }, terms);
  return toolName({ ...tool, custom: tool.kind === "custom" }, terms);
}

/** True when the choice forces a call. */
export const forces = ({ toolChoice }: Conversation): boolean =>
  toolChoice?.mode === "required" ||
  toolChoice?.mode === "named" ||
  (toolChoice?.mode === "allowed" && toolChoice.required);

/** Where the client chose. */
export const chosenAt = (conversation: Conversation): string =>
  pathOf(conversation, "tool_choice", "tool_choice_allowed");
