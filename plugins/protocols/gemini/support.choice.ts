/** The tool choice, and the names of tools in declarations, calls and choices. */
import {
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type Feature,
  type JsonObject,
  maySearch,
  pathOfUse,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { inBothSpellings, isBeforeGemini3, isVertex, type ProtoFields } from "./wire.ts";

/** What the choice is encoded from. */
interface ChoiceScope {
  readonly conversation: Conversation;
  readonly context: EncodeContext;
}

/**
 * Decodes and encodes the tool choice. It is no row of the settings: strict functions set a mode even without a choice, a
 * choice among several tools is a mode with names, and web search cannot be chosen.
 */
export const toolConfig = { read: readChoice, write: writeChoice };

function readChoice(request: ProtoFields): ToolChoice | undefined {
  const config = request.object("toolConfig");
  if (!config) return undefined;
  const functionCalling = config.object("functionCallingConfig");
  const choice = functionCalling && readMode(functionCalling);
  config.declareUnread("other", COSMETIC_MEMBERS);
  return choice;
}

/** Whether calls of the vendor's own tools are shown, and how the response is split into chunks. */
const COSMETIC_MEMBERS = inBothSpellings<Feature>({
  includeServerSideToolInvocations: "cosmetic",
  streamFunctionCallArguments: "cosmetic",
});

const MODES: ReadonlySet<string> = new Set(["AUTO", "ANY", "NONE", "VALIDATED"]);

function readMode(functionCalling: ProtoFields): ToolChoice | undefined {
  const mode = functionCalling.enumValue("mode") ?? "AUTO";
  const names = functionCalling.texts("allowedFunctionNames") ?? [];
  functionCalling.declareUnread("other", COSMETIC_MEMBERS);
  if (!MODES.has(mode)) functionCalling.refuse("mode", "must be AUTO, ANY, NONE or VALIDATED.");
  if (!functionCalling.has("mode") && names.length === 0) return undefined;
  const isSubset = names.length > 1 || (names.length === 1 && mode !== "ANY");
  functionCalling.declareSelf(isSubset ? "tool_choice_allowed" : "tool_choice");
  // Enforces the schemas of arguments: other protocols do so per tool, with restrictions on the schema.
  if (mode === "VALIDATED") functionCalling.declare("mode", "other");
  const [name = ""] = names;
  if (mode === "NONE") return { mode: "none" };
  if (names.length === 0) return { mode: mode === "ANY" ? "required" : "auto" };
  if (mode === "ANY" && names.length === 1) return { mode: "named", name };
  return { mode: "allowed", required: mode === "ANY", names };
}

/** Tools that the client runs. */
export type ClientTool = Extract<Tool, { kind: "function" | "custom" }>;

export const isClientTool = (tool: Tool): tool is ClientTool => tool.kind === "function" || tool.kind === "custom";

/** Returns a conversation with web search alone where the choice leaves no other tool: no mode lets a request choose it. */
export function withChosenSearch(conversation: Conversation, context: EncodeContext): Conversation {
  const { tools, toolChoice } = conversation;
  const isChosen =
    toolChoice?.mode === "allowed"
      ? toolChoice.names.length > 0 && toolChoice.names.every((name) => isWebSearch(name, conversation))
      : toolChoice?.mode === "named" && toolChoice.server === true && toolChoice.name === "web_search";
  const searches = tools.filter(({ kind }) => kind === "web_search");
  if (!isChosen || searches.length === 0 || searches.length === tools.length) return conversation;
  for (const { at, kind } of tools) if (kind !== "web_search") context.change(at, "not among the allowed tools");
  return { ...conversation, tools: searches };
}

/**
 * Returns a conversation whose format the model takes: those before Gemini 3 refuse JSON beside functions ("Function calling with a
 * response mime type: 'application/json' is unsupported" [D]), which are left out where none may be called.
 * @throws GatewayError where one may be called
 */
export function withPossibleFormat(conversation: Conversation, context: EncodeContext): Conversation {
  const { tools, toolChoice } = conversation;
  if (conversation.task !== "generate" || !asksForJson(conversation)) return conversation;
  if (!isBeforeGemini3(context) || !tools.some(isClientTool)) return conversation;
  if (toolChoice?.mode !== "none")
    return context.refuse(
      pathOfUse(conversation, "json_schema", pathOfUse(conversation, "json_object")),
      "the model answers in JSON only where it has no functions to call",
      "Leave out the functions, make the answer a function of its own, or choose Gemini 3 or later.",
    );
  context.change(pathOfUse(conversation, "tool_choice"), "no functions are sent: the model refuses them beside JSON");
  return { ...conversation, tools: tools.filter((tool) => !isClientTool(tool)) };
}

/** Reports whether a tool is sent. The choice covers functions only, so web search is left out where it may not be used. */
export const isToolSent = (tool: Tool, scope: ChoiceScope): boolean =>
  tool.kind !== "web_search" || (maySearch(scope.conversation, tool) && !isSearchRefused(scope));

const asksForJson = ({ format }: Conversation): boolean => format !== undefined && format.kind !== "text";

/**
 * Reports whether the model refuses web search beside the functions ("Tool use with function calling is unsupported"), or beside JSON
 * ("Tool use with a response mime type: 'application/json' is unsupported"). [D]
 */
const isSearchRefused = ({ conversation, context }: ChoiceScope): boolean =>
  isBeforeGemini3(context) && (conversation.tools.some(isClientTool) || asksForJson(conversation));

function writeChoice(scope: ChoiceScope): JsonObject | undefined {
  const { conversation, context } = scope;
  const { toolChoice } = conversation;
  const tools = conversation.tools.filter((tool) => isToolSent(tool, scope));
  // The vendor refuses a mode without functions. [M]
  const omitsMode = !tools.some(isClientTool) && (toolChoice?.mode === "auto" || toolChoice?.mode === "none");
  // Required when functions and the vendor's tools are declared together [D]; the Vertex form has no such member. [S]
  const mixesTools = tools.some(isClientTool) && !tools.every(isClientTool) && !isBeforeGemini3(context);
  const config = dropUndefined({
    functionCallingConfig: omitsMode ? undefined : callingConfig(toolChoice, scope),
    includeServerSideToolInvocations: mixesTools && !isVertex(context) ? true : undefined,
  });
  return Object.keys(config).length > 0 ? config : undefined;
}

function callingConfig(choice: ToolChoice | undefined, scope: ChoiceScope): JsonObject | undefined {
  const { conversation, context } = scope;
  switch (choice?.mode) {
    case undefined:
    case "auto":
      return automaticConfig(choice, scope);
    case "none":
      return { mode: "NONE" };
    case "required":
      return hasOnlyWebSearch(conversation) ? dropSearchChoice("tool_choice", scope) : { mode: "ANY" };
    case "named":
      if (choice.server !== true) return { mode: "ANY", allowedFunctionNames: declaredNames([choice.name], scope) };
      context.drop(
        pathOfUse(conversation, "tool_choice"),
        "the provider does not let a request require one of its own tools by name: the model decides",
      );
      return automaticConfig(undefined, scope);
    case "allowed":
      return allowedConfig(choice, scope);
  }
}

function allowedConfig(choice: ToolChoice & { mode: "allowed" }, scope: ChoiceScope): JsonObject | undefined {
  const { conversation } = scope;
  const names = choice.names.filter((name) => !isWebSearch(name, conversation));
  if (names.length === 0 && choice.names.length > 0) {
    const kept = !choice.required && hasOnlyWebSearch(conversation);
    return kept ? undefined : dropSearchChoice("tool_choice_allowed", scope);
  }
  // AUTO accepts no names of functions. [S]
  return { mode: choice.required ? "ANY" : "VALIDATED", allowedFunctionNames: declaredNames(names, scope) };
}

/** Reports whether a name in a choice is web search, not a function of that name. */
const isWebSearch = (name: string, { tools }: Conversation): boolean =>
  name === "web_search" && !tools.some((tool) => isClientTool(tool) && tool.name === name);

/** Reports whether web search is the only tool. */
const hasOnlyWebSearch = ({ tools }: Conversation): boolean =>
  tools.length > 0 && tools.every(({ kind }) => kind === "web_search");

/** Drops a choice of web search, which cannot be expressed. */
function dropSearchChoice(feature: Feature, scope: ChoiceScope): JsonObject | undefined {
  const notice = "web search cannot be required by a request: the model decides";
  scope.context.change(pathOfUse(scope.conversation, feature, "tool_choice"), notice);
  return automaticConfig(undefined, scope);
}

/** Returns the configuration without a required tool. Strictness is a mode that applies to all functions or none. */
function automaticConfig(
  choice: ToolChoice | undefined,
  { conversation, context }: ChoiceScope,
): JsonObject | undefined {
  const declared = conversation.tools.filter(isClientTool);
  const strict = declared.filter((tool) => tool.kind === "function" && tool.strict === true);
  if (!strict[0]) return choice && { mode: "AUTO" };
  if (strict.length < declared.length)
    context.change(
      pathOfUse(conversation, "tools_strict", strict[0].at),
      "the provider applies strict to all functions or none: it applies to all, with mode VALIDATED",
    );
  return { mode: "VALIDATED" };
}

/** Returns the names under which the client's tools were declared. */
function declaredNames(names: readonly string[], scope: ChoiceScope): readonly string[] {
  const toolsByName = new Map(
    scope.conversation.tools
      .filter(isClientTool)
      .reverse()
      .map((tool) => [tool.name, tool]),
  );
  return names.map((name) => fitGeminiToolName(scope, toolsByName.get(name) ?? { name }));
}

/** Characters of a function's name after the first, which is a letter or an underscore. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_.:-";
/** As the vendor's refusals say ("with a maximum length of 64") [D]; its SDK says 128. */
const MAX_NAME_LENGTH = 64;

/** Returns the name under which a tool is declared and called. */
export function fitGeminiToolName(
  { context: { names } }: ChoiceScope,
  tool: Parameters<EncodeContext["names"]["fitTool"]>[0],
): string {
  const prefix = /^[A-Za-z_]/.test(tool.namespace ?? tool.name) ? "" : "_";
  return names.fitTool(tool, NAME_CHARACTERS, MAX_NAME_LENGTH, prefix);
}
