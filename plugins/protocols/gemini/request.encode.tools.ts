import {
  type Conversation,
  defined,
  type Feature,
  type JsonObject,
  maySearch,
  RawJson,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { type Form, shaped } from "./request.members.ts";
import { NAME, type NativeRequest, type NativeSchema, type NativeTool } from "./request.native.ts";
import { fittedName, nativeOf, pathOf, type Writing } from "./request.writing.ts";

type Declared = Extract<Tool, { kind: "function" | "custom" }>;

const isDeclared = (tool: Tool): tool is Declared => tool.kind === "function" || tool.kind === "custom";

/** A choice is one among functions there. Web search has no part in it, and is left out where it may not be used. */
const isSent = (tool: Tool, { conversation, own }: Writing): boolean =>
  own || tool.kind !== "web_search" || maySearch(conversation, tool);

/** Free text as the only argument of a function. */
const FREE_TEXT = new RawJson('{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}');

export function writeTools(writing: Writing): JsonObject[] | undefined {
  const { conversation } = writing;
  const native = nativeOf<NativeRequest>(writing, conversation);
  if (native) return ownTools(native.tools, writing);
  const functions = conversation.tools.filter(isDeclared).map((tool) => declaration(tool, writing));
  const others = conversation.tools
    .filter((tool) => !isDeclared(tool))
    .map((tool) => vendorTool(tool, writing))
    .filter((json) => json !== undefined);
  const tools = functions.length > 0 ? [{ functionDeclarations: functions }, ...others] : others;
  return tools.length > 0 ? tools : undefined;
}

/** What stood in each of the source's tools. */
function ownTools(forms: readonly Form[], writing: Writing): JsonObject[] {
  const made = forms.map((): JsonObject & { functionDeclarations: JsonObject[] } => ({ functionDeclarations: [] }));
  for (const tool of writing.conversation.tools) {
    const native = nativeOf<NativeTool>(writing, tool);
    const holder = native && made[native.tool];
    if (!holder) continue;
    if (tool.kind === "function") holder.functionDeclarations.push(ownDeclaration(tool, native));
    else if (tool.kind === "web_search")
      holder[native.member ?? "googleSearch"] = shaped(defined({ excludeDomains: tool.blocked }), native.form);
    else if (tool.kind === "server") holder[tool.name] = tool.json;
  }
  return made.map((holder, n) => shaped(holder, forms[n]));
}

function ownDeclaration(tool: Extract<Tool, { kind: "function" }>, { form, schema }: NativeTool): JsonObject {
  const { name, description, parameters } = tool;
  const source = sourceSchema(parameters, schema);
  return shaped(defined({ name, description, parameters: source, parametersJsonSchema: source }), form);
}

/** A schema in the source's dialect, as long as it was read as this one. */
export const sourceSchema = (read: RawJson | undefined, native: NativeSchema | undefined): RawJson | undefined =>
  native && native.read.text === read?.text ? native.source : read;

function declaration(tool: Declared, writing: Writing): JsonObject {
  const { description } = tool;
  if (tool.kind === "function")
    return defined({ name: fittedName(writing, tool), description, parametersJsonSchema: tool.parameters });
  if (tool.grammar !== undefined) writing.terms.drop(tool.at, "a grammar for a tool's text cannot be told there");
  const name = fittedName(writing, { ...tool, custom: true });
  return defined({ name, description, parametersJsonSchema: FREE_TEXT });
}

/** A tool that the vendor runs. Which sites to search, and how often, is not asked for in the form without Vertex. [S] */
function vendorTool(tool: Tool, writing: Writing): JsonObject | undefined {
  const { conversation, terms } = writing;
  if (tool.kind === "server") {
    if (tool.protocol === NAME) return { [tool.name]: tool.json };
    return terms.refuse(tool.at, `the tool ${tool.name} is run by another vendor`);
  }
  if (tool.kind !== "web_search") return undefined;
  if (!isSent(tool, writing)) {
    if (conversation.toolChoice?.mode !== "none") terms.change(tool.at, "not among the tools that may be used");
    return undefined;
  }
  for (const [name, words] of UNTAKEN)
    if (tool[name] !== undefined) terms.drop(tool.paths?.[name] ?? tool.at, `its web search takes no ${words}`);
  return { googleSearch: {} };
}

const UNTAKEN = [
  ["allowed", "list of domains"],
  ["blocked", "list of blocked domains"],
  ["maxUses", "limit of searches"],
  ["size", "size of context"],
  ["location", "location of the user"],
] as const;

export function writeToolConfig(writing: Writing): JsonObject | undefined {
  const native = nativeOf<NativeRequest>(writing, writing.conversation);
  const { toolChoice } = writing.conversation;
  const tools = writing.conversation.tools.filter((tool) => isSent(tool, writing));
  // How to choose among no functions is refused by the vendor. [M]
  const idle = !tools.some(isDeclared) && (toolChoice?.mode === "auto" || toolChoice?.mode === "none");
  const functionCallingConfig = idle && !native ? undefined : calling(toolChoice, writing);
  if (native) {
    const made = { functionCallingConfig: shaped(functionCallingConfig ?? {}, native.calling) };
    return native.toolConfig && shaped(made, native.toolConfig);
  }
  // Both kinds of tools together are only taken with this. [D]
  const mixed =
    tools.some(isDeclared) && tools.some((tool) => !isDeclared(tool)) && writing.terms.facts.thinking !== "budget";
  const config = defined({ functionCallingConfig, includeServerSideToolInvocations: mixed ? true : undefined });
  return Object.keys(config).length > 0 ? config : undefined;
}

function calling(choice: ToolChoice | undefined, writing: Writing): JsonObject | undefined {
  switch (choice?.mode) {
    case undefined:
    case "auto":
      return automatic(choice, writing);
    case "none":
      return { mode: "NONE" };
    case "required":
      return onlySearches(writing) ? searching("tool_choice", writing) : { mode: "ANY" };
    case "named":
      if (choice.server !== true) return { mode: "ANY", allowedFunctionNames: chosen([choice.name], writing) };
      writing.terms.drop(
        pathOf(writing, "tool_choice", "tool_choice"),
        "a tool that the vendor runs cannot be chosen by name there",
      );
      return automatic(undefined, writing);
    case "allowed":
      return allowed(choice, writing);
  }
}

function allowed(choice: ToolChoice & { mode: "allowed" }, writing: Writing): JsonObject | undefined {
  const { own, conversation } = writing;
  const names = own ? choice.names : choice.names.filter((name) => !isSearch(name, conversation));
  if (names.length === 0 && choice.names.length > 0) {
    const kept = !choice.required && onlySearches(writing);
    return kept ? undefined : searching("tool_choice_allowed", writing);
  }
  return {
    // Names of functions that may, but need not be called are not taken with AUTO. [S]
    mode: choice.required ? "ANY" : free(writing, "VALIDATED"),
    allowedFunctionNames: chosen(names, writing),
  };
}

/** Whether a choice names web search, and not a function that is called so. */
const isSearch = (name: string, { tools }: Conversation): boolean =>
  name === "web_search" && !tools.some((tool) => isDeclared(tool) && tool.name === name);

/** Whether web search is all there is to choose. */
const onlySearches = ({ conversation: { tools }, own }: Writing): boolean =>
  !own && tools.length > 0 && tools.every(({ kind }) => kind === "web_search");

/** A choice of web search, which is none of functions. */
function searching(feature: Feature, writing: Writing): JsonObject | undefined {
  const why = "web search cannot be chosen there: what is called is left to the model";
  writing.terms.change(pathOf(writing, feature, "tool_choice"), why);
  return automatic(undefined, writing);
}

/** The mode of a choice that is free: the source's own one, or the usual. */
function free(writing: Writing, usual: "AUTO" | "VALIDATED"): string {
  const native = nativeOf<NativeRequest>(writing, writing.conversation);
  if (!native) return usual;
  return native.validated === true ? "VALIDATED" : "AUTO";
}

/** Arguments that must match their schemas are a matter of the mode here, for all functions or none. */
function automatic(choice: ToolChoice | undefined, writing: Writing): JsonObject | undefined {
  const { conversation, own, terms } = writing;
  if (own) return choice && { mode: free(writing, "AUTO") };
  const declared = conversation.tools.filter(isDeclared);
  const strict = declared.filter((tool) => tool.kind === "function" && tool.strict === true);
  if (!strict[0]) return choice && { mode: "AUTO" };
  if (strict.length < declared.length)
    terms.change(
      pathOf(writing, "tools_strict", strict[0].at),
      "strict is asked of all functions at once, as VALIDATED",
    );
  return { mode: "VALIDATED" };
}

/** The names that tools of the client's were declared by. */
function chosen(names: readonly string[], writing: Writing): readonly string[] {
  const { conversation, own } = writing;
  if (own) return names;
  const declared = new Map(
    conversation.tools
      .filter(isDeclared)
      .reverse()
      .map((tool) => [tool.name, tool]),
  );
  return names.map((name) => {
    const tool = declared.get(name);
    return fittedName(writing, tool ? { ...tool, custom: tool.kind === "custom" } : { name });
  });
}
