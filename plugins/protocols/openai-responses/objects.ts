import {
  type AskedBody,
  asList,
  asObject,
  asText,
  type Frame,
  type JsonObject,
  type ObjectWords,
  type OtherModelWords,
} from "model-gateway/protocol";
import { RECALLED, SCHEMAS, UNREAD } from "../openai/objects.ts";
import { REFERENCE } from "./wire.ts";

/** Events that tell ids; of all others only the start is looked at. */
const NAMING = /response\.(?:created|output_item\.)/;

/** What a kept answer goes by, and the containers that it ran in. */
function* made(json: JsonObject, request: AskedBody): Generator<string> {
  const { response, item, output } = json;
  const answer = asObject(response) ?? json;
  const kept = request.member("store")?.kind !== "false";
  const conversation = asText(asObject(answer["conversation"])?.["id"]);
  if (conversation !== undefined) yield conversation;
  const id = kept ? asText(answer["id"]) : undefined;
  if (id !== undefined) yield id;
  for (const each of [item, ...asList(output)]) {
    const { id, type, container_id: container } = asObject(each) ?? {};
    // Clients send a picture with its id again, whatever was kept.
    if ((kept || type === "image_generation_call") && typeof id === "string") yield id;
    if (typeof container === "string") yield container;
  }
}

/** The vendor's tool that draws has a model of its own, and one more for drawings in SVG; items may bring tools along. */
export const otherModels: OtherModelWords = { below: ["tools", "moderation"], around: ["input"], unread: SCHEMAS };

/** Answers, their items, conversations, and what the vendor's tools work on. [S: ResponseCreateParams] */
export const objects: ObjectWords = {
  top: ["previous_response_id", "conversation", "prompt"],
  anywhere: ["file_id", "file_ids", "vector_store_ids", "container", "container_id", "skill_id", "tunnel_id"],
  asObjects: ["voice"],
  references: [REFERENCE],
  // A picture that was drawn before: the vendor looks for its id with the picture beside it, too.
  whole: { image_generation_call: "result" },
  recalled: RECALLED,
  untyped: true,
  unread: UNREAD,
  makes: () => true,
  members: ["id", "conversation", "output"],
  made,
  tells: ({ bytes }: Frame) => NAMING.test(bytes.toString("latin1", 0, bytes[0] === EVENT ? 40 : 120)),
};

/** The first letter of an event's name line. */
const EVENT = "e".charCodeAt(0);
