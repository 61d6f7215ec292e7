import {
  asList,
  asObject,
  asText,
  type JsonObject,
  type ObjectMembers,
  type OtherModelMembers,
  type RequestMembers,
  type VendorObjects,
} from "model-gateway/protocol";
import { NO_THREADS } from "./wire.ts";

/** Events that name containers and their files. */
const OBJECT_EVENTS = /^event: (?:message_|content_block_start)/;
const QUOTE = '"'.charCodeAt(0);

/** Reports whether a request may run code: nothing else creates objects with ids. */
function createsObjects(request: RequestMembers): boolean {
  if (request.member("container") ?? request.member("thread")) return true;
  const tools = request.member("tools");
  return tools !== undefined && request.slice(tools.start, tools.end).includes("code_execution");
}

/**
 * Returns the response's container, the files that its tools created, and the response's own id where a thread continues from
 * it.
 */
function* createdIds(json: JsonObject, request: RequestMembers): Generator<string> {
  const response = asObject(json["message"]) ?? asObject(json["delta"]) ?? json;
  const ids = [asObject(response["container"])?.["id"], request.member("thread") && response["id"]];
  for (const id of ids) if (typeof id === "string") yield id;
  for (const block of [...asList(response["content"]), json["content_block"]]) yield* fileIds(block);
}

/** Returns the files of a tool's result: `content.content[].file_id`. */
function* fileIds(block: unknown): Generator<string> {
  const content = asObject(block)?.["content"];
  for (const output of asList(asObject(content)?.["content"] ?? content)) {
    const id = asText(asObject(output)?.["file_id"]);
    if (id !== undefined) yield id;
  }
}

/** Clients continue without a thread that does not exist. */
const unknownThreadMessage = (param: string) =>
  param.startsWith("thread")
    ? {
        status: 400,
        kind: "invalid" as const,
        message: "thread: no such message is known for this key.",
        param: "thread",
        ...NO_THREADS,
      }
    : undefined;

/** Files, containers, threads, skills and profiles of the Messages protocol. [S: BetaMessage] */
export const objects: ObjectMembers = {
  topLevel: ["container"],
  anyDepth: ["file_id", "previous_message_id", "skill_id", "user_profile_id"],
  notSearched: ["metadata", "input", "input_schema", "citations", "schema"],
  // The ids of the vendor's own skills are lower-case words.
  id: (text) => (/^[a-z]+$/.test(text) ? undefined : text),
  unknownError: unknownThreadMessage,
  createsObjects,
  createdIdMembers: ["id", "container", "content"],
  createdIds,
  mayHoldIds: (frame) =>
    OBJECT_EVENTS.test(frame.bytes.toString("latin1", 0, 32)) &&
    (frame.containsWord("message_start") || frame.mayContain("container") || frame.mayContain("file_id", QUOTE)),
};

/**
 * Models that take over where the first one declines, and the advisor's model. [S: BetaFallbackParam, BetaAdvisorTool20260301]
 */
export const otherModels: OtherModelMembers = {
  searched: ["fallbacks", "tools"],
  notSearched: ["input_schema", "input_examples", "schema", "cache_control"],
  // "default": the vendor's own fallbacks for the first model.
  vendorChoice: ["fallbacks"],
};

/** Other objects that the vendor stores: message batches, uploads, and the objects of its agents. [S: the paths of its SDK] */
export const vendorObjects: VendorObjects = {
  collections: [
    ...["files", "messages/batches", "skills", "containers", "threads", "agents", "sessions", "environments", "vaults"],
    ...["memory_stores", "deployments", "deployment_runs", "dreams", "tunnels", "user_profiles"],
  ],
  actions: [],
  public: ["models"],
  account: ["organization", "organizations"],
  bodyMembers: {
    ...objects,
    topLevel: [],
    anyDepth: [
      ...[...objects.anyDepth, "container", "agent", "agent_id", "agents", "environment_id", "vault_id", "vault_ids"],
      ...["memory_store_id", "session_id", "session_ids", "deployment_id", "tunnel_id"],
    ],
    createdIdMembers: ["id"],
  },
  derived: {},
  // SDKs fetch this URL with their own key.
  urlMembers: { "messages/batches": ["results_url"] },
};
