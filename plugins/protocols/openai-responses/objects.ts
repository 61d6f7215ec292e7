import {
  asList,
  asObject,
  asText,
  type Frame,
  type JsonObject,
  type ObjectMembers,
  type OtherModelMembers,
  type RequestMembers,
} from "model-gateway/protocol";
import { CHOOSING_TOOLS, LOOKED_UP_ITEMS, SCHEMA_MEMBERS, UNREAD_MEMBERS } from "../openai/objects.ts";
import { IMAGE_CALL, IMAGE_TOOL, ITEM_REFERENCE } from "./wire.ts";

/** Events with ids; only the beginning of other events is checked. */
const ID_EVENTS = /response\.(?:created|output_item\.)/;

/** Returns the ids of a stored response, and of the containers that it ran in. */
function* createdIds(json: JsonObject, request: RequestMembers): Generator<string> {
  const { response, item, output } = json;
  const responseJson = asObject(response) ?? json;
  const isStored = request.member("store")?.kind !== "false";
  const conversation = asText(asObject(responseJson["conversation"])?.["id"]);
  if (conversation !== undefined) yield conversation;
  const id = isStored ? asText(responseJson["id"]) : undefined;
  if (id !== undefined) yield id;
  for (const value of [item, ...asList(output)]) {
    const { id, type, container_id: container } = asObject(value) ?? {};
    // Clients send an image back with its id, stored or not.
    if ((isStored || type === IMAGE_CALL) && typeof id === "string") yield id;
    if (typeof container === "string") yield container;
  }
}

/**
 * The vendor's image tool has a model of its own, by default one of the vendor's choice, and another for SVG drawings; items may
 * contain tools.
 */
export const otherModels: OtherModelMembers = {
  topLevel: ["models", "fallbacks"],
  searched: ["tools", "moderation", "plugins", "fallbacks", "extra_body"],
  containers: ["input"],
  notSearched: SCHEMA_MEMBERS,
  // Other vendors keep settings under its name, of which the model is one. [D: OpenRouter, Perplexity]
  vendorChoice: ["preset"],
  choosingTools: CHOOSING_TOOLS,
  defaultModelTools: [IMAGE_TOOL],
};

/** Responses, their items, conversations, and the objects of the vendor's tools. [S: ResponseCreateParams] */
export const objects: ObjectMembers = {
  topLevel: ["previous_response_id", "conversation", "prompt"],
  anyDepth: [
    "file_id",
    "file_ids",
    "vector_store_ids",
    "container",
    "container_id",
    "skill_id",
    "tunnel_id",
    "comparison_response_id",
  ],
  // Some clients send the last answer's id with each request, whoever made that. [D: pydantic-ai]
  comparedWith: ["prompt_cache_options", "comparison_response_id"],
  objectsOnly: ["voice"],
  referenceTypes: [ITEM_REFERENCE],
  // An image from an earlier response: the vendor looks up its id even if the image is included.
  inlineContent: { image_generation_call: "result" },
  outputItems: LOOKED_UP_ITEMS,
  untypedElements: true,
  notSearched: UNREAD_MEMBERS,
  createsObjects: () => true,
  createdIdMembers: ["id", "conversation", "output"],
  createdIds,
  mayHoldIds: ({ bytes }: Frame) => ID_EVENTS.test(bytes.toString("latin1", 0, bytes[0] === LETTER_E ? 40 : 120)),
};

/** The first letter of an event's name line. */
const LETTER_E = "e".charCodeAt(0);
