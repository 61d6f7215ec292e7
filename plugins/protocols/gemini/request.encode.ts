import {
  type Conversation,
  defined,
  type EncodeContext,
  type EncodedRequest,
  entryOf,
  type JsonObject,
  type ToolCall,
  writeJson,
} from "model-gateway/protocol";
import { OPERATIONS } from "./path.ts";
import { writeConfig } from "./request.encode.settings.ts";
import { writeToolConfig, writeTools } from "./request.encode.tools.ts";
import { unsignedCalls, writeTurns } from "./request.encode.turns.ts";
import { shaped } from "./request.members.ts";
import { NAME, type NativeRequest } from "./request.native.ts";
import { nativeOf, pathOf, type Writing } from "./request.writing.ts";

/**
 * Writes a request to generate content or to count tokens.
 * @throws GatewayError for what cannot be said, naming the client's field
 */
export function encode(conversation: Conversation, terms: EncodeContext): EncodedRequest {
  const own = conversation.protocol === NAME && conversation.native !== undefined;
  const writing: Writing = {
    conversation,
    terms,
    own,
    calls: callsOf(conversation),
    unsigned: own && !terms.pruned ? new Set() : unsignedCalls(conversation, terms),
  };
  const native = nativeOf<NativeRequest>(writing, conversation);
  const request = shaped(written(writing), native?.root);
  if (conversation.task === "count")
    return { operation: OPERATIONS.countTokens, body: writeJson(counted(request, terms, native)) };
  const body = writeJson(request);
  if (!conversation.stream) return { operation: OPERATIONS.generateContent, body };
  return { operation: OPERATIONS.streamGenerateContent, query: "alt=sse", body };
}

function callsOf({ turns }: Conversation): Map<string, { call: ToolCall; order: number }> {
  const calls = turns.flatMap(({ parts }) => parts.filter((part) => part.kind === "tool_call"));
  return new Map(calls.map((call, order) => [call.id, { call, order }]));
}

function written(writing: Writing): JsonObject {
  const { conversation, own, terms } = writing;
  const { instruction, contents } = writeTurns(writing);
  return defined({
    model: own && conversation.task === "count" ? `models/${terms.model}` : undefined,
    systemInstruction: instruction,
    contents,
    tools: writeTools(writing),
    toolConfig: writeToolConfig(writing),
    generationConfig: writeConfig(writing),
    // Only the Vertex form of the protocol takes labels; a request with them fails elsewhere. [S]
    labels: own ? conversation.metadata : undefined,
    serviceTier: writeTier(writing),
    store: writeStore(writing),
  });
}

/** Contents alone stand at top level; with anything else the whole request does, in an object that names the model. */
function counted(request: JsonObject, terms: EncodeContext, native: NativeRequest | undefined): JsonObject {
  if (native) return native.outer ? shaped({ generateContentRequest: request }, native.outer) : request;
  const { contents, ...more } = request;
  if (Object.keys(more).length === 0) return { contents };
  return { generateContentRequest: { model: `models/${terms.model}`, ...request } };
}

const TIERS: Readonly<Record<string, string | undefined>> = {
  auto: undefined,
  default: "standard",
  standard: "standard",
  standard_only: "standard",
  flex: "flex",
  priority: "priority",
};

function writeTier(writing: Writing): string | undefined {
  const { tier } = writing.conversation;
  if (tier === undefined || writing.own) return tier && (entryOf(TIERS, tier) ?? tier);
  if (!Object.hasOwn(TIERS, tier))
    writing.terms.drop(pathOf(writing, "tier", "service_tier"), `the tier ${tier} is unknown there`);
  return entryOf(TIERS, tier);
}

/** An answer that is kept could only be asked for in this protocol. */
function writeStore(writing: Writing): boolean | undefined {
  const { own, conversation, terms } = writing;
  if (!own && conversation.store === true)
    terms.refuse(pathOf(writing, "store", "store"), "answers cannot be kept there. Send false or leave it out");
  return own ? conversation.store : undefined;
}
