import {
  type Conversation,
  type EncodeContext,
  type JsonObject,
  maySearch,
  pathOfUse,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { fitName } from "../openai/request.encode.ts";
import type { BodyNative, PieceNative } from "./request.native.ts";

/** A tool's name as Chat takes it; one in a namespace has that before it. */
export function nameOf(name: string, namespace: string | undefined, terms: EncodeContext): string {
  if (namespace === undefined) return fitName(name, terms.names);
  const fitted = fitName(`${namespace}__${name}`, terms.names);
  terms.names.mark(fitted, { name, namespace });
  return fitted;
}

/** Everything of a request that says which tools there are and which to call. */
export function toolMembers(conversation: Conversation, terms: EncodeContext, native?: BodyNative): JsonObject {
  const members: JsonObject = {};
  const tools: JsonObject[] = [];
  const functions: JsonObject[] = [];
  for (const tool of conversation.tools) {
    if (tool.cache && !native) terms.drop(tool.at, "Chat Completions has no cache marks on tools");
    if (tool.kind === "web_search") {
      if (native || searches(tool, conversation, terms)) members["web_search_options"] = webSearchOf(tool, terms);
    } else if ((tool.native as PieceNative | undefined)?.form === "functions") functions.push(functionOf(tool, terms));
    else tools.push(toolOf(tool, terms));
  }
  if (tools.length > 0 || native?.forms["tools"]) members["tools"] = tools;
  if (functions.length > 0) members["functions"] = functions;
  // OpenAI refuses both members where there are no tools.
  const called = native !== undefined || tools.length > 0;
  if (conversation.toolChoice && called) {
    const name = native ? String(native.forms["tool_choice"]) : "tool_choice";
    members[name] = choiceOf(conversation.toolChoice, conversation, terms);
    if (name === "function_call" && conversation.toolChoice.mode === "named")
      members[name] = { name: conversation.toolChoice.name };
  } else sayFree(conversation, terms);
  if (conversation.parallel !== undefined && called) members["parallel_tool_calls"] = conversation.parallel;
  return members;
}

/** Whether web search is sent: `tool_choice` does not concern it here, so it is left out where it may not be used. */
function searches(tool: Tool & { kind: "web_search" }, conversation: Conversation, terms: EncodeContext): boolean {
  const may = maySearch(conversation, tool);
  if (!may && conversation.toolChoice?.mode !== "none") terms.change(tool.at, "not among the tools that may be used");
  return may;
}

/** A search cannot be forced: where there is nothing else to call, there is no choice at all. */
function sayFree(conversation: Conversation, terms: EncodeContext): void {
  const { toolChoice, tools } = conversation;
  const search = tools.find((tool) => tool.kind === "web_search");
  if (!search || !maySearch(conversation, search)) return;
  const why = `web search cannot be forced: ${FREE}`;
  if (toolChoice?.mode === "required" || toolChoice?.mode === "named")
    terms.change(pathOfUse(conversation, "tool_choice"), why);
  else if (toolChoice?.mode === "allowed" && toolChoice.required)
    terms.change(pathOfUse(conversation, "tool_choice_allowed"), why);
}

function toolOf(tool: Tool, terms: EncodeContext): JsonObject {
  const native = tool.native as PieceNative | undefined;
  switch (tool.kind) {
    case "function":
      return {
        ...(native?.form === "untyped" ? {} : { type: "function" }),
        function: functionOf(tool, terms),
        ...native?.rest,
      };
    case "custom": {
      const { description, grammar } = tool;
      const name = nameOf(tool.name, tool.namespace, terms);
      const custom = {
        name,
        ...(description === undefined ? {} : { description }),
        ...(grammar === undefined ? {} : { format: formatOfGrammar(grammar) }),
      };
      return { type: "custom", custom: { ...custom, ...native?.inner }, ...native?.rest };
    }
    case "server":
      return tool.json as JsonObject;
    case "web_search":
      return {};
  }
}

/** A grammar has its members nested here and flat in Responses. */
function formatOfGrammar(grammar: unknown): unknown {
  const { type, syntax, definition, grammar: nested } = (grammar ?? {}) as JsonObject;
  return type === "grammar" && nested === undefined ? { type, grammar: { syntax, definition } } : grammar;
}

function functionOf(tool: Tool, terms: EncodeContext): JsonObject {
  if (tool.kind !== "function") return {};
  const { description, parameters, strict } = tool;
  return {
    name: nameOf(tool.name, tool.namespace, terms),
    ...(description === undefined ? {} : { description }),
    ...(parameters === undefined ? {} : { parameters }),
    ...(strict === undefined ? {} : { strict }),
    ...(tool.native as PieceNative | undefined)?.inner,
  };
}

function webSearchOf(tool: Tool & { kind: "web_search" }, terms: EncodeContext): JsonObject {
  const native = tool.native as PieceNative | undefined;
  const { at, paths } = tool;
  if (tool.allowed?.length) terms.drop(paths?.allowed ?? at, "Chat Completions cannot limit a search to some domains");
  if (tool.blocked?.length) terms.drop(paths?.blocked ?? at, "Chat Completions cannot keep a search from some domains");
  if (tool.maxUses !== undefined)
    terms.drop(paths?.maxUses ?? at, "Chat Completions cannot limit the number of searches");
  return {
    ...(tool.size === undefined ? {} : { search_context_size: tool.size }),
    ...(tool.location ? { user_location: { type: "approximate", approximate: tool.location } } : {}),
    ...native?.rest,
  };
}

function choiceOf(choice: ToolChoice, conversation: Conversation, terms: EncodeContext): unknown {
  switch (choice.mode) {
    case "auto":
    case "none":
      return choice.mode;
    case "required":
      return "required";
    case "named": {
      if (!choice.server) return reference(choice.name, ownTools(conversation).get(choice.name), terms, choice.custom);
      terms.change(pathOfUse(conversation, "tool_choice"), `${choice.name} cannot be called for by its name: ${FREE}`);
      return "auto";
    }
    case "allowed":
      return allowedOf(choice, conversation, terms);
  }
}

const FREE = "whether it is called is left to the model";

/** The client's own tools that may be called; the vendor's have no name in Chat. */
function allowedOf(
  choice: ToolChoice & { mode: "allowed" },
  conversation: Conversation,
  terms: EncodeContext,
): unknown {
  const own = ownTools(conversation);
  const path = pathOfUse(conversation, "tool_choice_allowed");
  const tools: JsonObject[] = [];
  for (const name of choice.names) {
    const tool = own.get(name);
    if (tool) tools.push(reference(name, tool, terms));
    else terms.change(path, `${name} is no tool of the client's: ${FREE}`);
  }
  if (tools.length === 0) return "none";
  return { type: "allowed_tools", allowed_tools: { mode: choice.required ? "required" : "auto", tools } };
}

/** The client's tools by their names. */
function ownTools({ tools }: Conversation): Map<string, Tool> {
  const own = tools.filter((tool) => tool.kind === "function" || tool.kind === "custom");
  return new Map(own.map((tool) => [tool.name, tool]));
}

/** How a tool is named in a choice. */
function reference(name: string, tool: Tool | undefined, terms: EncodeContext, custom?: boolean): JsonObject {
  const kind = custom || tool?.kind === "custom" ? "custom" : "function";
  const namespace = tool && "namespace" in tool ? tool.namespace : undefined;
  return { type: kind, [kind]: { name: nameOf(name, namespace, terms) } };
}
