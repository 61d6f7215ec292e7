/** Which tool to call, and how tools are named where they are declared, called and chosen. */
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
import { inBothSpellings, type ProtoFields, throwInvalidField } from "./wire.ts";

/** What the choice is written from. */
interface ChoiceScope {
  readonly conversation: Conversation;
  readonly context: EncodeContext;
}

/**
 * No row: strict functions ask for a mode where the client chose nothing, a choice among some is a mode and names, and
 * web search cannot be chosen at all.
 */
export const toolConfig = { read: readChoice, write: writeChoice };

function readChoice(request: ProtoFields): ToolChoice | undefined {
  const config = request.object("toolConfig");
  if (!config) return undefined;
  const calling = config.object("functionCallingConfig");
  const choice = calling && readMode(calling);
  config.declareUnread("other", COSMETIC_MEMBERS);
  return choice;
}

/** How much is shown of what the vendor's own tools did, and how the answer is cut into pieces. */
const COSMETIC_MEMBERS = inBothSpellings<Feature>({
  includeServerSideToolInvocations: "cosmetic",
  streamFunctionCallArguments: "cosmetic",
});

const MODES: ReadonlySet<string> = new Set(["AUTO", "ANY", "NONE", "VALIDATED"]);

function readMode(calling: ProtoFields): ToolChoice | undefined {
  const mode = calling.enumWord("mode") ?? "AUTO";
  const names = calling.texts("allowedFunctionNames") ?? [];
  calling.declareUnread("other", COSMETIC_MEMBERS);
  if (!MODES.has(mode)) throwInvalidField(calling.path("mode"), "must be AUTO, ANY, NONE or VALIDATED");
  if (!calling.has("mode") && names.length === 0) return undefined;
  const among = names.length > 1 || (names.length === 1 && mode !== "ANY");
  calling.declareSelf(among ? "tool_choice_allowed" : "tool_choice");
  // Arguments by the schema: other protocols ask for that tool by tool, with conditions on the schema.
  if (mode === "VALIDATED") calling.declare("mode", "other");
  const [only = ""] = names;
  if (mode === "NONE") return { mode: "none" };
  if (names.length === 0) return { mode: mode === "ANY" ? "required" : "auto" };
  if (mode === "ANY" && names.length === 1) return { mode: "named", name: only };
  return { mode: "allowed", required: mode === "ANY", names };
}

/** Tools that the client runs. */
export type ClientTool = Extract<Tool, { kind: "function" | "custom" }>;

export const isClientTool = (tool: Tool): tool is ClientTool => tool.kind === "function" || tool.kind === "custom";

/** A choice is one among functions there. Web search has no part in it, and is left out where it may not be used. */
export const isToolSent = (tool: Tool, { conversation }: ChoiceScope): boolean =>
  tool.kind !== "web_search" || maySearch(conversation, tool);

function writeChoice(scope: ChoiceScope): JsonObject | undefined {
  const { conversation, context } = scope;
  const { toolChoice } = conversation;
  const tools = conversation.tools.filter((tool) => isToolSent(tool, scope));
  // How to choose among no functions is refused by the vendor. [M]
  const idle = !tools.some(isClientTool) && (toolChoice?.mode === "auto" || toolChoice?.mode === "none");
  // Both kinds of tools together are only taken with this. [D]
  const mixed =
    tools.some(isClientTool) && tools.some((tool) => !isClientTool(tool)) && context.facts.thinking !== "budget";
  const config = dropUndefined({
    functionCallingConfig: idle ? undefined : callingConfig(toolChoice, scope),
    includeServerSideToolInvocations: mixed ? true : undefined,
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
      context.drop(pathOfUse(conversation, "tool_choice"), "the provider cannot be given a tool of its own by name");
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
  // Names of functions that may, but need not be called are not taken with AUTO. [S]
  return { mode: choice.required ? "ANY" : "VALIDATED", allowedFunctionNames: declaredNames(names, scope) };
}

/** Whether a choice names web search, and not a function that is called so. */
const isWebSearch = (name: string, { tools }: Conversation): boolean =>
  name === "web_search" && !tools.some((tool) => isClientTool(tool) && tool.name === name);

/** Whether web search is all there is to choose. */
const hasOnlyWebSearch = ({ tools }: Conversation): boolean =>
  tools.length > 0 && tools.every(({ kind }) => kind === "web_search");

/** A choice of web search, which is none of functions. */
function dropSearchChoice(feature: Feature, scope: ChoiceScope): JsonObject | undefined {
  const why = "web search cannot be chosen there: what is called is left to the model";
  scope.context.change(pathOfUse(scope.conversation, feature, "tool_choice"), why);
  return automaticConfig(undefined, scope);
}

/** Arguments that must match their schemas are a matter of the mode here, for all functions or none. */
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
      "strict applies to all functions at once, as VALIDATED",
    );
  return { mode: "VALIDATED" };
}

/** The names that tools of the client's were declared by. */
function declaredNames(names: readonly string[], scope: ChoiceScope): readonly string[] {
  const declared = new Map(
    scope.conversation.tools
      .filter(isClientTool)
      .reverse()
      .map((tool) => [tool.name, tool]),
  );
  return names.map((name) => {
    const tool = declared.get(name);
    return fitToolName(scope, tool ? { ...tool, custom: tool.kind === "custom" } : { name });
  });
}

/** Characters of a function's name after the first, which is a letter or an underscore. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_.:-";
const LONGEST_NAME = 128;

/**
 * The name under which a tool is declared and called. One in a namespace bears it in front, and one that takes free text
 * is remembered as such, so that the answer's calls come back as the client knows them.
 */
export function fitToolName(
  { context: { names } }: ChoiceScope,
  { name, namespace, custom }: { name: string; namespace?: string; custom?: boolean },
): string {
  const whole = namespace === undefined ? name : `${namespace}__${name}`;
  const start = /^[A-Za-z_]/.test(whole) ? "" : "_";
  const fitted = names.fit(`${start}${whole}`, NAME_CHARACTERS, LONGEST_NAME);
  if (start !== "" || namespace !== undefined || custom === true)
    names.mark(fitted, {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(custom === true ? { custom } : {}),
    });
  return fitted;
}
