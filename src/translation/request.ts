import { GatewayError } from "../core/errors.ts";
import type { Facts } from "../core/marketplace.ts";
import type { Operation, Protocol, Task } from "../core/protocol.ts";
import { NestedJson } from "../wire/nested.ts";
import { parseInSteps } from "../wire/parse-in-steps.ts";
import { declareAssistantMedia, moveMediaToUser } from "./assistant-media.ts";
import { checkHasTurns, checkToolNames, checkToolPairs } from "./checks.ts";
import {
  type ClientTranslation,
  type EncodeContext,
  type EncodedRequest,
  type IncomingRequest,
  requireClientTranslation,
  type TranslatedProtocol,
} from "./codec.ts";
import type { Conversation, Foreign } from "./conversation.ts";
import type { Envelopes } from "./envelope.ts";
import type { Opaque } from "./events.ts";
import type { Feature } from "./features.ts";
import { RAW_REQUEST_MEMBERS } from "./fields.ts";
import { rewriteTextFiles } from "./file-text.ts";
import { Losses } from "./losses.ts";
import { ToolNames } from "./names.ts";
import { dropUnknownNamespaces } from "./namespaces.ts";
import { keepReadable, placeState, UNREADABLE_NOTICE } from "./opaque-state.ts";
import { pathOfUse } from "./settings.ts";
import { runAtOnce, type Steps } from "./steps.ts";
import { declareNeededTools } from "./vendor-tools.ts";
import { type WrapKind, wrapFormat } from "./wrap.ts";

/** The parts of a client's request that decoding needs. */
export interface ClientRequest {
  protocol: Protocol;
  operation: Operation;
  streaming: boolean;
  /** The body as JSON text, or its bytes, where it is large and parsed in steps. */
  text?: string;
  bytes?: Buffer;
  /** The key's id; empty for callers without one. */
  caller: string;
  /** Possible owners of the envelopes in the request. */
  owners?: readonly string[];
}

/**
 * Decodes and checks a client's request, and places opaque state. The result can be written for any number of targets.
 * @throws GatewayError `invalid_field` with the client's own path
 */
export const readRequest = (received: ClientRequest, envelopes: Envelopes): Conversation =>
  runAtOnce(readRequestInSteps(received, envelopes));

/** Does the same in steps, for large requests. @throws GatewayError `invalid_field` with the client's own path */
export function* readRequestInSteps(received: ClientRequest, envelopes: Envelopes): Steps<Conversation> {
  const codec = requestCodec(received);
  const incoming = new Incoming(received, envelopes);
  if (received.bytes) incoming.parsed = yield* parseBody(received.bytes, codec.rawMembers);
  const steps = codec.decode(incoming);
  let step = withSyntaxErrors(() => steps.next());
  while (!step.done) {
    yield;
    step = withSyntaxErrors(() => steps.next());
  }
  const conversation = step.value;
  // Before ids are looked up.
  checkToolNames(conversation);
  yield* rewriteTextFiles(conversation);
  yield;
  placeState(conversation);
  yield;
  return checkConversation(conversation);
}

function* parseBody(bytes: Buffer, raw = RAW_REQUEST_MEMBERS): Steps<unknown> {
  try {
    return yield* parseInSteps(bytes, raw);
  } catch (cause) {
    throw new GatewayError("invalid_json", { cause });
  }
}

function checkConversation(conversation: Conversation): Conversation {
  // Token counts may be for a part of a conversation, and a stored response's history is known to its vendor only.
  const isCompleteConversation =
    conversation.task === "generate" && !conversation.uses.some(({ feature }) => feature === "stored_state");
  if (isCompleteConversation) {
    checkHasTurns(conversation);
    checkToolPairs(conversation);
  }
  dropUnknownNamespaces(conversation);
  declareAssistantMedia(conversation);
  declareNeededTools(conversation);
  return conversation;
}

const requestCodec = ({ protocol }: ClientRequest): ClientTranslation["request"] =>
  requireClientTranslation(protocol).request;

class Incoming implements IncomingRequest {
  readonly task: Task;
  readonly streaming: boolean;
  parsed?: unknown;

  constructor(
    private readonly received: ClientRequest,
    private readonly envelopes: Envelopes,
  ) {
    this.task = received.operation.task ?? "generate";
    this.streaming = received.streaming;
  }

  get text(): string {
    const { text, bytes } = this.received;
    return text ?? bytes?.toString() ?? "";
  }

  // Bound, as decoders take them out of their object.
  readonly open = (data: string, kind: string): Opaque => {
    const { protocol, owners } = this.received;
    return this.isEnvelope(data) ? this.envelopes.open(data, owners) : { protocol: protocol.name, kind, data };
  };

  readonly isEnvelope = (data: string): boolean => this.envelopes.isEnvelope(data);

  readonly recall = (key: { toString(): string }): Opaque | undefined => {
    const opaque = this.envelopes.recall(this.received.caller, key);
    return opaque && { ...opaque, recalled: true };
  };
}

export interface RequestDestination {
  protocol: TranslatedProtocol;
  /** The provider account. */
  account: string;
  /** The vendor's name of the model. */
  model: string;
  facts: Facts;
  /** The provider's. */
  url?: URL;
  /** True where it has refused the state in the request: it gets none. */
  withoutState?: boolean;
  /** True where it refuses to summarise the reasoning. */
  withoutSummary?: boolean;
}

/** Features that do not change the number of prompt tokens; leaving them out of a token count loses nothing. */
const UNCOUNTED_FEATURES: ReadonlySet<Feature> = new Set([
  "audio_out",
  "background",
  "choices",
  "image_out",
  "logit_bias",
  "logprobs",
  "max_tokens",
  "moderation",
  "penalties",
  "seed",
  "stop",
  "store",
  "temperature",
  "tier",
  "top_k",
  "top_p",
]);

/** A request encoded for a target, with its losses. */
export interface WrittenRequest {
  encoded: EncodedRequest;
  names: ToolNames;
  losses: Losses;
  /** Set when the response is wrapped in an object that the client did not request. */
  wrapped?: WrapKind;
}

/**
 * Encodes a request for a target.
 * @param strict whether a loss is refused
 * @throws GatewayError `not_translatable` with the client's own path
 */
export const writeRequest = (conversation: Conversation, to: RequestDestination, strict: boolean): WrittenRequest =>
  runAtOnce(writeRequestInSteps(conversation, to, strict));

/** Does the same in steps, for large requests. @throws GatewayError `not_translatable` with the client's own path */
export function* writeRequestInSteps(
  conversation: Conversation,
  to: RequestDestination,
  strict: boolean,
): Steps<WrittenRequest> {
  const { prepared, context, written } = prepareRequest(conversation, to, strict);
  yield;
  return { ...written, encoded: yield* to.protocol.translation.request.encode(prepared, context) };
}

/** The part of encoding that is the same for all protocols. */
interface PreparedRequest {
  prepared: Conversation;
  context: EncodeContext;
  written: Omit<WrittenRequest, "encoded">;
}

/** Judges a request's features, and removes what its reader cannot read. */
function prepareRequest(conversation: Conversation, to: RequestDestination, strict: boolean): PreparedRequest {
  const { support } = to.protocol.translation.request;
  const losses = lossesFor(to, strict);
  const { uses, task } = conversation;
  const relevantUses = task === "count" ? uses.filter(({ feature }) => !UNCOUNTED_FEATURES.has(feature)) : uses;
  const blocks = strict ? foreignBlocks(conversation) : [];
  losses.applySupport(relevantUses, support, new Map(blocks.map(({ at, name }) => [at, name])));
  for (const { path, why } of conversation.changed ?? []) losses.change(path, why);
  return pruneFor(conversation, to, losses);
}

const foreignBlocks = ({ turns }: Conversation): Foreign[] =>
  turns.flatMap(({ parts }) => parts.filter((part) => part.kind === "foreign"));

/** Refuses a request that holds only system messages once blocks that only their vendor understands are removed. */
function refuseIfEmpty(original: Conversation, readable: Conversation, losses: Losses): void {
  if (original.task === "count" || readable.turns.some(({ role }) => role === "user" || role === "assistant")) return;
  const [block] = foreignBlocks(original);
  if (block)
    losses.refuse(
      block.at,
      `"${block.name}" is a block that only its vendor understands, and the request is empty without it`,
      "Replace the block, or choose a model whose provider accepts it.",
    );
}

export const lossesFor = ({ protocol }: RequestDestination, strict: boolean): Losses =>
  new Losses(`${protocol.name}, which the model's provider speaks`, strict);

function pruneFor(conversation: Conversation, to: RequestDestination, losses: Losses): PreparedRequest {
  const { protocol, account, model, facts, url, withoutState = false, withoutSummary = false } = to;
  const reader = { protocol: protocol.name, account, withoutState };
  const readable = keepReadable(conversation, reader, ({ recalled }, path, on) => {
    // An image's signature holds no reasoning; others do not need it, and the image stays.
    if (on === "media" && (recalled || !losses.strict)) return;
    // A client cannot leave out what it did not send.
    if (losses.strict && !recalled)
      losses.drop(
        path,
        `${on === "media" ? "The signature" : "Reasoning"} that another provider made can be read only by that provider`,
      );
    else losses.note(UNREADABLE_NOTICE);
  });
  refuseIfEmpty(conversation, readable, losses);
  const names = new ToolNames(conversation.tools);
  const context: EncodeContext = {
    model,
    facts,
    ...(url && { url }),
    names,
    withoutSummary,
    nested: new NestedJson(),
    drop: (path, why) => losses.drop(path, why),
    change: (path, why) => losses.change(path, why),
    refuse: (path, why, hint) => losses.refuse(path, why, hint),
  };
  const { request } = protocol.translation;
  const wrapping = wrapFormat(readable.format, request.objectSchemas === true);
  const clamped = clampMaxTokens(readable, context);
  const mediaMoved = request.assistantMedia ? clamped : moveMediaToUser(clamped, context);
  const prepared = wrapping ? { ...mediaMoved, format: wrapping.format } : mediaMoved;
  return { prepared, context, written: { names, losses, ...(wrapping?.wrapped ? { wrapped: wrapping.wrapped } : {}) } };
}

/** Limits `max_tokens` to the model's maximum output: vendors refuse more, and thinking is counted within it. */
function clampMaxTokens(conversation: Conversation, context: EncodeContext): Conversation {
  const { maxTokens, task } = conversation;
  const { output } = context.facts;
  if (task === "count" || maxTokens === undefined || output === undefined || maxTokens <= output) return conversation;
  context.change(pathOfUse(conversation, "max_tokens"), `the model's answers are at most ${output} tokens long`);
  return { ...conversation, maxTokens: output };
}

/** Reports a syntax error as `invalid_json`: parts that the body's scan skips, like the end of a long string, may be invalid. */
function withSyntaxErrors<Result>(read: () => Result): Result {
  try {
    return read();
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    throw new GatewayError("invalid_json", { cause: thrown });
  }
}
