import { type Conversation, type JsonObject, type Terms, type Tool, type ToolChoice } from "model-gateway";
import type { BodyNative, PieceNative } from "./request.native.ts";

/** What Chat takes as a tool's name. */
const ALLOWED = "a-zA-Z0-9_-";
const LONGEST = 64;

/** A tool's name as Chat takes it; one in a namespace has that before it. */
export function nameOf(name: string, namespace: string | undefined, terms: Terms): string {
  if (namespace === undefined) return terms.names.fit(name, ALLOWED, LONGEST);
  const fitted = terms.names.fit(`${namespace}__${name}`, ALLOWED, LONGEST);
  terms.names.mark(fitted, { name, namespace });
  return fitted;
}

/** Everything of a request that says which tools there are and which to call. */
export function toolMembers(conversation: Conversation, terms: Terms): JsonObject {
  const native = conversation.native as BodyNative | undefined;
  const members: JsonObject = {};
  const tools: JsonObject[] = [];
  const functions: JsonObject[] = [];
  for (const tool of conversation.tools) {
    if (tool.cache && !native) terms.drop(tool.at, "Chat Completions has no cache marks on tools");
    if (tool.kind === "web_search") members["web_search_options"] = webSearchOf(tool, terms);
    else if ((tool.native as PieceNative | undefined)?.form === "functions") functions.push(functionOf(tool, terms));
    else tools.push(toolOf(tool, terms));
  }
  if (tools.length > 0 || native?.forms["tools"]) members["tools"] = tools;
  if (functions.length > 0) members["functions"] = functions;
  // OpenAI refuses both members where there are no tools.
  const called = native !== undefined || tools.length > 0;
  if (conversation.toolChoice && called) {
    const name = native ? String(native.forms["tool_choice"]) : "tool_choice";
    members[name] = choiceOf(conversation.toolChoice, conversation, terms, native?.forms["choice"]);
    if (name === "function_call" && conversation.toolChoice.mode === "named")
      members[name] = { name: conversation.toolChoice.name };
  }
  if (conversation.parallel !== undefined && called) members["parallel_tool_calls"] = conversation.parallel;
  return members;
}

function toolOf(tool: Tool, terms: Terms): JsonObject {
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

function functionOf(tool: Tool, terms: Terms): JsonObject {
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

function webSearchOf(tool: Tool & { kind: "web_search" }, terms: Terms): JsonObject {
  const native = tool.native as PieceNative | undefined;
  if (tool.allowed?.length) terms.refuse(tool.at, "Chat Completions cannot limit a search to some domains");
  if (tool.blocked?.length) terms.refuse(tool.at, "Chat Completions cannot keep a search from some domains");
  if (tool.maxUses !== undefined) terms.drop(tool.at, "Chat Completions cannot limit the number of searches");
  return {
    ...(tool.size === undefined ? {} : { search_context_size: tool.size }),
    ...(tool.location ? { user_location: { type: "approximate", approximate: tool.location } } : {}),
    ...native?.rest,
  };
}

function choiceOf(choice: ToolChoice, conversation: Conversation, terms: Terms, form: unknown): unknown {
  switch (choice.mode) {
    case "auto":
    case "none":
      return choice.mode;
    case "required":
      return form === "any" ? "any" : "required";
    case "named": {
      // A search by the vendor cannot be called for by name; it is the only thing such a request is made for.
      if (choice.server) return "auto";
      const { type, ...named } = reference(choice.name, conversation, terms, choice.custom);
      return form === "untyped" ? named : { type, ...named };
    }
    case "allowed": {
      const tools = choice.names.map((name) => reference(name, conversation, terms));
      return { type: "allowed_tools", allowed_tools: { mode: choice.required ? "required" : "auto", tools } };
    }
  }
}

/** How a tool is named in a choice. */
function reference(name: string, { tools }: Conversation, terms: Terms, custom?: boolean): JsonObject {
  const tool = tools.find((each) => (each.kind === "function" || each.kind === "custom") && each.name === name);
  const kind = custom || tool?.kind === "custom" ? "custom" : "function";
  const namespace = tool && "namespace" in tool ? tool.namespace : undefined;
  return { type: kind, [kind]: { name: nameOf(name, namespace, terms) } };
}
