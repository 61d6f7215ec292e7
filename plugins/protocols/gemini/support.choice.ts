/** Which tool to call, and how tools are named where they are declared, called and chosen. */
import {
  type Conversation,
  defined,
  type EncodeContext,
  type Feature,
  type JsonObject,
  maySearch,
  pathOfUse,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { type ProtoFields, spelledBoth, wrong } from "./wire.ts";

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
  config.rest("other", COSMETIC);
  return choice;
}

/** How much is shown of what the vendor's own tools did, and how the answer is cut into pieces. */
const COSMETIC = spelledBoth<Feature>({
  includeServerSideToolInvocations: "cosmetic",
  streamFunctionCallArguments: "cosmetic",
});

const MODES: ReadonlySet<string> = new Set(["AUTO", "ANY", "NONE", "VALIDATED"]);

function readMode(calling: ProtoFields): ToolChoice | undefined {
  const mode = calling.enumWord("mode") ?? "AUTO";
  const names = calling.texts("allowedFunctionNames") ?? [];
  calling.rest("other", COSMETIC);
  if (!MODES.has(mode)) wrong(calling.path("mode"), "must be AUTO, ANY, NONE or VALIDATED");
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
export type DeclaredTool = Extract<Tool, { kind: "function" | "custom" }>;

export const isDeclared = (tool: Tool): tool is DeclaredTool => tool.kind === "function" || tool.kind === "custom";

/** A choice is one among functions there. Web search has no part in it, and is left out where it may not be used. */
export const isSent = (tool: Tool, { conversation }: ChoiceScope): boolean =>
  tool.kind !== "web_search" || maySearch(conversation, tool);

function writeChoice(scope: ChoiceScope): JsonObject | undefined {
  const { conversation, context } = scope;
  const { toolChoice } = conversation;
  const tools = conversation.tools.filter((tool) => isSent(tool, scope));
  // How to choose among no functions is refused by the vendor. [M]
  const idle = !tools.some(isDeclared) && (toolChoice?.mode === "auto" || toolChoice?.mode === "none");
  // Both kinds of tools together are only taken with this. [D]
  const mixed =
    tools.some(isDeclared) && tools.some((tool) => !isDeclared(tool)) && context.facts.thinking !== "budget";
  const config = defined({
    functionCallingConfig: idle ? undefined : calling(toolChoice, scope),
    includeServerSideToolInvocations: mixed ? true : undefined,
  });
  return Object.keys(config).length > 0 ? config : undefined;
}

function calling(choice: ToolChoice | undefined, scope: ChoiceScope): JsonObject | undefined {
  const { conversation, context } = scope;
  switch (choice?.mode) {
    case undefined:
    case "auto":
      return automatic(choice, scope);
    case "none":
      return { mode: "NONE" };
    case "required":
      return onlySearches(conversation) ? searching("tool_choice", scope) : { mode: "ANY" };
    case "named":
      if (choice.server !== true) return { mode: "ANY", allowedFunctionNames: fittedNames([choice.name], scope) };
      context.drop(
        pathOfUse(conversation, "tool_choice"),
        "a tool that the vendor runs cannot be chosen by name there",
      );
      return automatic(undefined, scope);
    case "allowed":
      return allowed(choice, scope);
  }
}

function allowed(choice: ToolChoice & { mode: "allowed" }, scope: ChoiceScope): JsonObject | undefined {
  const { conversation } = scope;
  const names = choice.names.filter((name) => !isSearch(name, conversation));
  if (names.length === 0 && choice.names.length > 0) {
    const kept = !choice.required && onlySearches(conversation);
    return kept ? undefined : searching("tool_choice_allowed", scope);
  }
  // Names of functions that may, but need not be called are not taken with AUTO. [S]
  return { mode: choice.required ? "ANY" : "VALIDATED", allowedFunctionNames: fittedNames(names, scope) };
}

/** Whether a choice names web search, and not a function that is called so. */
const isSearch = (name: string, { tools }: Conversation): boolean =>
  name === "web_search" && !tools.some((tool) => isDeclared(tool) && tool.name === name);

/** Whether web search is all there is to choose. */
const onlySearches = ({ tools }: Conversation): boolean =>
  tools.length > 0 && tools.every(({ kind }) => kind === "web_search");

/** A choice of web search, which is none of functions. */
function searching(feature: Feature, scope: ChoiceScope): JsonObject | undefined {
  const why = "web search cannot be chosen there: what is called is left to the model";
  scope.context.change(pathOfUse(scope.conversation, feature, "tool_choice"), why);
  return automatic(undefined, scope);
}

/** Arguments that must match their schemas are a matter of the mode here, for all functions or none. */
function automatic(choice: ToolChoice | undefined, { conversation, context }: ChoiceScope): JsonObject | undefined {
  const declared = conversation.tools.filter(isDeclared);
  const strict = declared.filter((tool) => tool.kind === "function" && tool.strict === true);
  if (!strict[0]) return choice && { mode: "AUTO" };
  if (strict.length < declared.length)
    context.change(
      pathOfUse(conversation, "tools_strict", strict[0].at),
      "strict is asked of all functions at once, as VALIDATED",
    );
  return { mode: "VALIDATED" };
}

/** The names that tools of the client's were declared by. */
function fittedNames(names: readonly string[], scope: ChoiceScope): readonly string[] {
  const declared = new Map(
    scope.conversation.tools
      .filter(isDeclared)
      .reverse()
      .map((tool) => [tool.name, tool]),
  );
  return names.map((name) => {
    const tool = declared.get(name);
    return fittedName(scope, tool ? { ...tool, custom: tool.kind === "custom" } : { name });
  });
}

/** Characters of a function's name after the first, which is a letter or an underscore. [S] */
const NAME_CHARACTERS = "a-zA-Z0-9_.:-";
const NAME_LONGEST = 128;

/**
 * The name under which a tool is declared and called. One in a namespace bears it in front, and one that takes free text
 * is remembered as such, so that the answer's calls come back as the client knows them.
 */
export function fittedName(
  { context: { names } }: ChoiceScope,
  { name, namespace, custom }: { name: string; namespace?: string; custom?: boolean },
): string {
  const whole = namespace === undefined ? name : `${namespace}__${name}`;
  const start = /^[A-Za-z_]/.test(whole) ? "" : "_";
  const fitted = names.fit(`${start}${whole}`, NAME_CHARACTERS, NAME_LONGEST);
  if (start !== "" || namespace !== undefined || custom === true)
    names.mark(fitted, {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(custom === true ? { custom } : {}),
    });
  return fitted;
}
