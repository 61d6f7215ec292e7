import {
  type AskedBody,
  asList,
  asObject,
  asText,
  type JsonObject,
  type ObjectWords,
  type OtherModelWords,
  type VendorObjects,
} from "model-gateway/protocol";
import { UNTHREADED } from "./wire.ts";

/** Events in which containers and their files are told. */
const NAMING = /^event: (?:message_|content_block_start)/;
const QUOTE = '"'.charCodeAt(0);

/** Whether a request may run code: nothing else makes what can be named. */
function makes(request: AskedBody): boolean {
  if (request.member("container") ?? request.member("thread")) return true;
  const tools = request.member("tools");
  return tools !== undefined && request.slice(tools.start, tools.end).includes("code_execution");
}

/** The container that an answer ran in, the files that its tools made, and the answer itself where a thread goes on from it. */
function* made(json: JsonObject, request: AskedBody): Generator<string> {
  const answer = asObject(json["message"]) ?? asObject(json["delta"]) ?? json;
  const ids = [asObject(answer["container"])?.["id"], request.member("thread") && answer["id"]];
  for (const id of ids) if (typeof id === "string") yield id;
  for (const block of [...asList(answer["content"]), json["content_block"]]) yield* files(block);
}

/** The files of a tool's result: `content.content[].file_id`. */
function* files(block: unknown): Generator<string> {
  const content = asObject(block)?.["content"];
  for (const output of asList(asObject(content)?.["content"] ?? content)) {
    const id = asText(asObject(output)?.["file_id"]);
    if (id !== undefined) yield id;
  }
}

/** Clients go on without a thread that is not there. */
const unknown = (param: string) =>
  param.startsWith("thread")
    ? {
        status: 400,
        kind: "invalid" as const,
        message: "thread: no such message is known for this key.",
        param: "thread",
        ...UNTHREADED,
      }
    : undefined;

/** Files, containers, threads, skills and profiles of the Messages protocol. [S: BetaMessage] */
export const objects: ObjectWords = {
  top: ["container"],
  anywhere: ["file_id", "previous_message_id", "skill_id", "user_profile_id"],
  unread: ["metadata", "input", "input_schema", "citations", "schema"],
  // The vendor's own skills go by a plain word.
  id: (text) => (/^[a-z]+$/.test(text) ? undefined : text),
  unknown,
  makes,
  members: ["id", "container", "content"],
  made,
  tells: (frame) =>
    NAMING.test(frame.bytes.toString("latin1", 0, 32)) &&
    (frame.holds("message_start") || frame.mayContain("container") || frame.mayContain("file_id", QUOTE)),
};

/** Models that go on where the first one declines, and that of the advisor. [S: BetaFallbackParam, BetaAdvisorTool20260301] */
export const otherModels: OtherModelWords = {
  below: ["fallbacks", "tools"],
  unread: ["input_schema", "input_examples", "schema", "cache_control"],
  // "default": those that the vendor has for the first one.
  unnamed: ["fallbacks"],
};

/** What the vendor keeps besides: batches of messages, what is uploaded, and what its agents work with. [S: the paths of its SDK] */
export const vendor: VendorObjects = {
  collections: [
    ...["files", "messages/batches", "skills", "containers", "threads", "agents", "sessions", "environments", "vaults"],
    ...["memory_stores", "deployments", "deployment_runs", "dreams", "tunnels", "user_profiles"],
  ],
  actions: [],
  anybodys: ["models"],
  words: {
    ...objects,
    top: [],
    anywhere: [
      ...[...objects.anywhere, "container", "agent", "agent_id", "agents", "environment_id", "vault_id", "vault_ids"],
      ...["memory_store_id", "session_id", "session_ids", "deployment_id", "tunnel_id"],
    ],
    members: ["id"],
  },
  derived: {},
  // SDKs fetch what it names with the key that they have.
  addresses: { "messages/batches": ["results_url"] },
};
