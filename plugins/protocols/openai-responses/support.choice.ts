/** The tool choice, and images, which this protocol requests with a tool. */
import {
  asObject,
  type Conversation,
  dropUndefined,
  type EncodeContext,
  type Fields,
  type JsonObject,
  objectFields,
  type Setting,
  type Tool,
  type ToolChoice,
} from "model-gateway/protocol";
import { canRequireCall, fitName, requiredCallAsAuto } from "../openai/request.encode.ts";
import { IMAGE_SIZES, IMAGE_TOOL, OPENAI_RESPONSES, WEB_SEARCH } from "./wire.ts";

/** The tool choice, which includes the image tool when it is encoded. The vendor's tools have only their type as a name. */
export const RESPONSES_TOOL_CHOICE: readonly Setting[] = [
  {
    path: "tool_choice",
    field: "toolChoice",
    type: "any",
    // Without tools there is no choice, and some providers refuse one.
    writtenIf: (_, { tools }) => tools.length > 0,
    read: readChoice,
    write: writeChoice,
  },
];

/** A request for an image. It is no row of the settings, because it consists of a tool and the choice of it. */
export const imageTool = { read: readImageTool, write: addImageTool };

/** Decodes the tool choice. @throws GatewayError `invalid_field` */
function readChoice(body: Fields, at: string): ToolChoice {
  const choice = body.any(at);
  body.declare(at, "tool_choice");
  if (choice === "auto" || choice === "none" || choice === "required") return { mode: choice };
  const fields = objectFields(choice, at, body.uses);
  const type = fields.required("type");
  if (type === "allowed_tools") return readAllowed(fields);
  if (type === "function" || type === "custom") {
    const name = fields.required("name");
    fields.declareUnread();
    return { mode: "named", name, ...(type === "custom" && { custom: true }) };
  }
  const isWebSearch = WEB_SEARCH.test(type);
  if (isWebSearch) fields.declareUnread();
  return { mode: "named", name: isWebSearch ? "web_search" : type, server: true };
}

function readAllowed(fields: Fields): ToolChoice {
  const mode = fields.oneOf("mode", ["auto", "required"]);
  const tools = fields.objects("tools") ?? [];
  fields.declareSelf("tool_choice_allowed");
  const names = tools.map((tool) => {
    // The vendor's tools have only their type as a name.
    const name = tool.text("name") ?? tool.required("type");
    for (const member of ["type", "server_label"]) tool.ignore(member);
    tool.declareUnread();
    return name;
  });
  fields.declareUnread();
  return { mode: "allowed", required: mode === "required", names };
}

type NamedChoice = Extract<ToolChoice, { mode: "named" }>;
type AllowedChoice = Extract<ToolChoice, { mode: "allowed" }>;

function writeChoice(choice: ToolChoice, conversation: Conversation, context: EncodeContext): unknown {
  const { tools } = conversation;
  const isRequired = choice.mode === "required" || (choice.mode === "named" && !choice.server);
  if (isRequired && !canRequireCall(context)) return requiredCallAsAuto(conversation, context);
  switch (choice.mode) {
    case "named":
      return writeNamed(choice, tools, context);
    case "allowed":
      return writeAllowed(choice, tools, context);
    default:
      return choice.mode;
  }
}

function writeNamed({ name, custom, server }: NamedChoice, tools: readonly Tool[], context: EncodeContext): unknown {
  if (!server) return { type: custom ? "custom" : "function", name: fitName({ name }, context) };
  // The vendor cannot force web search by name: it becomes the only allowed tool. [S: ToolChoiceTypes]
  if (name !== "web_search") return { type: name };
  if (tools.length === 1) return "required";
  return { type: "allowed_tools", mode: "required", tools: [{ type: "web_search" }] };
}

function writeAllowed({ required, names }: AllowedChoice, tools: readonly Tool[], context: EncodeContext): JsonObject {
  const kinds = new Map(tools.toReversed().map((tool) => ["name" in tool ? tool.name : undefined, tool.kind]));
  const allowed = names.map((name) => {
    const kind = kinds.get(name);
    // The vendor's tools have only their type as a name.
    if (name === "web_search" || kind === "server") return { type: name };
    return { type: kind === "custom" ? "custom" : "function", name: fitName({ name }, context) };
  });
  return { type: "allowed_tools", mode: required ? "required" : "auto", tools: allowed };
}

/** Values of the image tool's members that have no effect. */
const IMAGE_TOOL_DEFAULTS: readonly unknown[] = ["auto", null, 0, "png", IMAGE_TOOL];

/**
 * Decodes the image tool as a request for an image if it is the only tool, and must be called or has been. If it is only
 * offered, it remains one of the vendor's tools: text-only models would refuse the whole request.
 */
function readImageTool(conversation: Conversation): void {
  const { tools, toolChoice: choice, turns, uses } = conversation;
  const [tool] = tools;
  if (tools.length !== 1 || tool?.kind !== "server" || tool.name !== IMAGE_TOOL || choice?.mode === "none") return;
  const forced = choice?.mode === "required" || (choice?.mode === "named" && choice.name === IMAGE_TOOL);
  if (!forced && !turns.some(({ parts }) => parts.some((part) => "tools" in part && part.tools?.includes(IMAGE_TOOL))))
    return;
  const { size, ...others } = asObject(tool.json) ?? {};
  const aspect = IMAGE_SIZES.find((entry) => entry.size === size)?.aspect;
  const unmapped = aspect === undefined ? { size, ...others } : others;
  const dropped = Object.keys(unmapped).filter((name) => !IMAGE_TOOL_DEFAULTS.includes(unmapped[name] ?? null));
  conversation.uses = uses.filter(({ feature }) => feature !== "tools_server");
  conversation.uses.push({ feature: "image_out", path: tool.at });
  for (const name of dropped) conversation.uses.push({ feature: "other", path: `${tool.at}.${name}` });
  conversation.modalities = forced ? ["image"] : ["text", "image"];
  if (aspect !== undefined) conversation.image = { aspect, paths: { aspect: `${tool.at}.size` } };
  conversation.tools = [];
  delete conversation.toolChoice;
}

/** Adds the image tool if an image is requested. It must be called if nothing else is requested. */
function addImageTool(
  { tools, toolChoice, modalities, image }: Conversation,
  context: EncodeContext,
): Pick<Conversation, "tools" | "toolChoice"> {
  if (!image && !modalities?.includes("image")) return { tools, ...dropUndefined({ toolChoice }) };
  const json = dropUndefined({ type: IMAGE_TOOL, size: image && imageSize(image, context) });
  const isImageOnly = tools.length === 0 && modalities !== undefined && !modalities.includes("text");
  const choice: ToolChoice | undefined = isImageOnly ? { mode: "named", name: IMAGE_TOOL, server: true } : toolChoice;
  return {
    tools: [...tools, { kind: "server", protocol: OPENAI_RESPONSES, name: IMAGE_TOOL, json, at: "tools" }],
    ...dropUndefined({ toolChoice: choice }),
  };
}

function imageSize({ aspect, size, paths }: NonNullable<Conversation["image"]>, context: EncodeContext) {
  const entry = IMAGE_SIZES.find((candidate) => candidate.aspect === aspect);
  if (aspect !== undefined && !entry)
    context.drop(
      paths.aspect ?? "image",
      `the provider makes images of ${IMAGE_SIZES.map((each) => each.aspect).join(", ")} only`,
    );
  if (size !== undefined && size !== "1K")
    context.drop(paths.size ?? "image", "the provider makes images of the size 1K only");
  return entry?.size;
}
