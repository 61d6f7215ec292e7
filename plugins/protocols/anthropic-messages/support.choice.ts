/** Tool choice, and tool names in declarations, calls and choices. */
import {
  asText,
  type Conversation,
  type EncodeContext,
  type Feature,
  type Fields,
  type JsonObject,
  ownProperty,
  pathOfUse,
  type Setting,
  type ToolChoice,
} from "model-gateway/protocol";

/** The tool choice. It includes `disable_parallel_tool_use`, with the vendor's default choice where the request has none. */
export const TOOL_CHOICE_SETTINGS: readonly Setting[] = [
  {
    path: "tool_choice",
    field: "toolChoice",
    feature: "tool_choice",
    type: "any",
    read: readChoice,
    write: writeChoice,
  },
  {
    path: "tool_choice.type",
    field: "parallel",
    type: "text",
    only: "encode",
    // The flag below needs a choice beside it.
    writtenIf: (parallel: boolean, { toolChoice }) => !parallel && !toolChoice,
    write: () => "auto",
  },
  {
    path: "tool_choice.disable_parallel_tool_use",
    field: "parallel",
    feature: "parallel_off",
    type: "flag",
    hasNoEffect: (parallel) => parallel === true,
    // The opposite of other protocols' flags.
    read: (choice, name) => !choice.flag(name),
    writtenIf: (parallel: boolean, { toolChoice }) => !parallel && toolChoice?.mode !== "none",
    write: () => true,
  },
];

const MODES: Readonly<Record<string, "auto" | "none" | "required">> = { auto: "auto", none: "none", any: "required" };

function readChoice(body: Fields, at: string, { tools }: Conversation): ToolChoice | undefined {
  const choice = body.object(at);
  if (!choice) return undefined;
  const type = choice.any("type");
  const mode = ownProperty(MODES, asText(type));
  if (mode) return { mode };
  if (type !== "tool") return choice.refuse("type", "must be auto, any, tool or none.");
  const name = choice.text("name") ?? choice.refuse("name", "must be the name of a tool.");
  const byVendor = tools.some((tool) => tool.kind === "web_search" && name === "web_search");
  const server = byVendor || tools.some((tool) => tool.kind === "server" && tool.name === name);
  return { mode: "named", name, ...(server ? { server: true } : {}) };
}

function writeChoice(choice: ToolChoice, conversation: Conversation, context: EncodeContext): JsonObject {
  switch (choice.mode) {
    case "auto":
    case "none":
      return { type: choice.mode };
    case "required":
      return { type: "any" };
    case "allowed":
      return { type: choice.required ? "any" : "auto" };
    case "named":
      return { type: "tool", name: chosenToolName(conversation, choice, context) };
  }
}

function chosenToolName(
  { tools }: Conversation,
  choice: Extract<ToolChoice, { mode: "named" }>,
  context: EncodeContext,
): string {
  if (choice.server) return choice.name;
  const own = tools.filter((tool) => tool.kind === "function" || tool.kind === "custom");
  const tool = own.find(({ name }) => name === choice.name);
  return fitToolName(tool ?? { name: choice.name }, context);
}

/** Reports whether the choice forces a call. */
export const forcesToolCall = ({ toolChoice }: Conversation): boolean =>
  toolChoice?.mode === "required" ||
  toolChoice?.mode === "named" ||
  (toolChoice?.mode === "allowed" && toolChoice.required);

/** Returns the client's path of the first feature in use; the first feature's name where none is. */
export function pathOfFirstUse(conversation: Conversation, ...features: [Feature, ...Feature[]]): string {
  const used = features.find((feature) => conversation.uses.some((use) => use.feature === feature));
  return pathOfUse(conversation, used ?? features[0]);
}

/** Returns the client's path of the tool choice. */
export const choicePath = (conversation: Conversation): string =>
  pathOfFirstUse(conversation, "tool_choice", "tool_choice_allowed");

const NAME_CHARACTERS = "a-zA-Z0-9_-";
const MAX_NAME_LENGTH = 128;

/** Returns a tool's name valid for the vendor, `^[a-zA-Z0-9_-]{1,128}$`. */
export const fitToolName = (tool: Parameters<EncodeContext["names"]["fitTool"]>[0], { names }: EncodeContext): string =>
  names.fitTool(tool, NAME_CHARACTERS, MAX_NAME_LENGTH);
