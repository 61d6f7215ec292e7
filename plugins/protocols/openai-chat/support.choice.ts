/** The tool choice, and the names of tools in declarations, calls and choices. */
import {
  asObject,
  type Conversation,
  type EncodeContext,
  type FeatureUse,
  Fields,
  invalidField,
  type JsonObject,
  maySearch,
  objectFields,
  pathOfUse,
  type Setting,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { canRequireCall, fitName, requiredCallAsAuto } from "../openai/request.encode.ts";
import { takesFreeText, takesSearchOptions } from "./support.models.ts";
import { LEGACY_CALL } from "./wire.ts";

/** The tool choice, decoded and encoded after the tools. The vendor's own tools have no name in Chat. */
export const CHAT_TOOL_CHOICE: readonly Setting[] = [
  {
    path: "tool_choice",
    field: "toolChoice",
    type: "any",
    read: readChoice,
    write: writeChoice,
  },
  {
    path: LEGACY_CALL,
    field: "toolChoice",
    unless: "tool_choice",
    type: "any",
    only: "decode",
    read: readChoice,
  },
];

/** Decodes a tool choice. @throws GatewayError if its form is unknown */
function readChoice(body: Fields, at: string): ToolChoice {
  const value = body.any(at);
  const { uses } = body;
  if (value === "auto") return { mode: value };
  uses.push({ feature: "tool_choice", path: at });
  if (value === "none" || value === "required") return { mode: value };
  // Mistral's name for it.
  if (value === "any") return { mode: "required" };
  const choice = new Fields(asObject(value) ?? {}, at, uses);
  // The object that is present determines the meaning.
  choice.any("type");
  const allowed = choice.object("allowed_tools");
  const custom = choice.object("custom");
  const inner = choice.object("function") ?? custom;
  const name = (inner ?? choice).text("name");
  const allowedChoice = allowed && readAllowed(allowed);
  choice.declareUnread();
  if (allowedChoice) return allowedChoice;
  if (name === undefined) throw invalidField(at, `${at} must be auto, none, required or name a tool.`);
  return { mode: "named", name, ...(inner && inner === custom ? { custom: true } : {}) };
}

function readAllowed(allowed: Fields): ToolChoice {
  allowed.declareSelf("tool_choice_allowed");
  const names = (allowed.list("tools") ?? []).map((tool, n) =>
    nameIn(tool, `${allowed.path("tools")}.${n}`, allowed.uses),
  );
  const required = allowed.text("mode") === "required";
  return { mode: "allowed", required, names };
}

/** Returns the name of a tool in a choice; a tool of the vendor's has only its type. */
function nameIn(value: unknown, at: string, uses: FeatureUse[]): string {
  const tool = objectFields(value, at, uses);
  const type = tool.text("type");
  const inner = tool.object("function") ?? tool.object("custom");
  const name = inner?.text("name") ?? tool.text("name") ?? type;
  if (name === undefined) throw invalidField(at, `${at} must name a tool.`);
  tool.declareUnread();
  return name;
}

function writeChoice(choice: ToolChoice, conversation: Conversation, context: EncodeContext): unknown {
  // OpenAI refuses a choice without tools.
  if (!conversation.tools.some(({ kind }) => kind !== "web_search"))
    return declareUnforcedSearch(conversation, context);
  switch (choice.mode) {
    case "auto":
    case "none":
      return choice.mode;
    case "required":
      if (canRequireCall(context)) return "required";
      return requiredCallAsAuto(conversation, context);
    case "named": {
      if (!choice.server)
        return toolReference(choice.name, ownTools(conversation).get(choice.name), context, choice.custom);
      context.change(
        pathOfUse(conversation, "tool_choice"),
        `${choice.name} cannot be required by name: ${LEFT_TO_MODEL}`,
      );
      return "auto";
    }
    case "allowed":
      return writeAllowed(choice, conversation, context);
  }
}

const LEFT_TO_MODEL = "the model decides whether to call it";

/** Declares a choice of web search, which cannot be forced, or is left out; without other tools there is no choice. */
function declareUnforcedSearch(conversation: Conversation, context: EncodeContext): undefined {
  const { toolChoice, tools } = conversation;
  const search = tools.find((tool) => tool.kind === "web_search");
  if (!search || !maySearch(conversation, search)) return;
  const reason = takesSearchOptions(context) ? LEFT_TO_MODEL : "the model is not known to search";
  const notice = `web search cannot be required: ${reason}`;
  if (toolChoice?.mode === "required" || toolChoice?.mode === "named")
    context.change(pathOfUse(conversation, "tool_choice"), notice);
  else if (toolChoice?.mode === "allowed" && toolChoice.required)
    context.change(pathOfUse(conversation, "tool_choice_allowed"), notice);
}

/** Encodes the client's tools that may be called; the vendor's have no name in Chat. */
function writeAllowed(
  choice: ToolChoice & { mode: "allowed" },
  conversation: Conversation,
  context: EncodeContext,
): unknown {
  const own = ownTools(conversation);
  const path = pathOfUse(conversation, "tool_choice_allowed");
  const tools: JsonObject[] = [];
  for (const name of choice.names) {
    const tool = own.get(name);
    if (tool) tools.push(toolReference(name, tool, context));
    else context.change(path, `${name} is not one of the request's own tools: ${LEFT_TO_MODEL}`);
  }
  if (tools.length === 0) return "none";
  return { type: "allowed_tools", allowed_tools: { mode: choice.required ? "required" : "auto", tools } };
}

/** Returns the client's tools by name. */
function ownTools({ tools }: Conversation): Map<string, Tool> {
  const own = tools.filter((tool) => tool.kind === "function" || tool.kind === "custom");
  return new Map(own.map((tool) => [tool.name, tool]));
}

/** Returns a tool's entry in a choice. */
function toolReference(name: string, tool: Tool | undefined, context: EncodeContext, custom?: boolean): JsonObject {
  const isCustom = custom || tool?.kind === "custom";
  const kind = isCustom && takesFreeText(context) ? "custom" : "function";
  const namespace = tool && "namespace" in tool ? tool.namespace : undefined;
  return { type: kind, [kind]: { name: fitChatToolName({ name, namespace, custom: isCustom }, context) } };
}

/** Returns a tool's name in Chat. */
export const fitChatToolName = (
  { name, namespace, kind, custom = kind === "custom" }: Parameters<typeof fitName>[0],
  context: EncodeContext,
): string => fitName({ name, namespace, custom: custom && !takesFreeText(context) }, context);
