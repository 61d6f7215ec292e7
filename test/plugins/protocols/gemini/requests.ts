import { decodeRequest } from "../../../../plugins/protocols/gemini/request.decode.ts";
import { encodeRequest } from "../../../../plugins/protocols/gemini/request.encode.ts";
import type { GatewayError } from "../../../../src/core/errors.ts";
import type { Facts } from "../../../../src/core/marketplace.ts";
import type { EncodeContext, EncodedRequest, IncomingRequest } from "../../../../src/translation/codec.ts";
import type { Conversation, Part, Turn } from "../../../../src/translation/conversation.ts";
import { ToolNames } from "../../../../src/translation/names.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { NestedJson } from "../../../../src/wire/nested.ts";
import { type RecordingEntry, recordingEntries, storedExchange } from "../../../support/recorded.ts";

/** A request of this protocol with that body. */
export function asked(body: unknown, more: Partial<IncomingRequest> = {}): IncomingRequest {
  return {
    task: "generate",
    streaming: false,
    text: typeof body === "string" ? body : JSON.stringify(body),
    // An envelope here is `gw1.PROTOCOL.KIND.DATA`.
    open: (text, kind) => {
      const [mark, protocol = "", sealed = "", data = ""] = text.split(".");
      return mark === "gw1"
        ? { protocol, kind: sealed, data, account: "other" }
        : { protocol: "gemini", kind, data: text };
    },
    isEnvelope: (text) => text.startsWith("gw1."),
    recall: () => undefined,
    ...more,
  };
}

/** A body read. */
export const read = (body: unknown, more: Partial<IncomingRequest> = {}): Conversation =>
  runAtOnce(decodeRequest(asked(body, more)));

/** Parts of one user turn, or of the turns given, read. */
export function partsOf(...parts: unknown[]): Part[] {
  return (read({ contents: [{ role: "user", parts }] }).turns[0] as Turn).parts;
}

/** What a body declares to use: `feature path`. */
export const usesOf = (body: unknown): string[] =>
  read({ contents: [], ...(body as object) }).uses.map(({ feature, path }) => `${feature} ${path}`);

/** The path at fault and the message of a refusal; undefined where there was none. */
export function refusal(run: () => unknown): { param: string | undefined; message: string; code: string } | undefined {
  try {
    run();
  } catch (error) {
    const { param, message, code } = error as GatewayError;
    return { param, message, code };
  }
  return undefined;
}

/** What was dropped and changed while a request was written. */
export interface DeclaredLosses {
  dropped: string[];
  changed: string[];
}

/** What a writer of requests is given; a refusal is an Error `path: why`. */
export function givenContext(
  facts: Facts = {},
  model = "gemini-x",
): { context: EncodeContext; losses: DeclaredLosses; names: ToolNames } {
  const losses: DeclaredLosses = { dropped: [], changed: [] };
  const names = new ToolNames();
  return {
    losses,
    names,
    context: {
      model,
      facts,
      names,
      nested: new NestedJson(),
      drop: (path, why) => void losses.dropped.push(`${path}: ${why}`),
      change: (path, why) => void losses.changed.push(`${path}: ${why}`),
      refuse: (path, why) => {
        throw new Error(`${path}: ${why}`);
      },
    },
  };
}

/** A conversation of another protocol's client. */
export const conversation = (more: Partial<Conversation> = {}): Conversation => ({
  protocol: "some-client",
  task: "generate",
  stream: false,
  turns: [user(text("Hi"))],
  tools: [],
  uses: [],
  ...more,
});

export const text = (value: string, more: object = {}): Part => ({ kind: "text", text: value, at: "text", ...more });
export const user = (...parts: Part[]): Turn => ({ role: "user", at: "user", parts });
export const assistant = (...parts: Part[]): Turn => ({ role: "assistant", at: "assistant", parts });
export const system = (value: string, at = "system"): Turn => ({ role: "system", at, parts: [text(value)] });
export const call = (id: string, name: string, args = "{}", more: object = {}): Part => ({
  kind: "tool_call",
  at: `call ${id}`,
  id,
  name,
  arguments: args,
  ...more,
});
export const result = (callId: string, value: string, more: object = {}): Part => ({
  kind: "tool_result",
  at: `result ${callId}`,
  callId,
  parts: value === "" ? [] : [text(value)],
  ...more,
});

/** A conversation written, with what was dropped and changed. */
export function written(
  more: Partial<Conversation>,
  facts: Facts = {},
  model?: string,
): DeclaredLosses & { body: Body; text: string; encoded: EncodedRequest; names: ToolNames } {
  const given = givenContext(facts, model);
  const encoded = runAtOnce(encodeRequest(conversation(more), given.context));
  return {
    ...given.losses,
    encoded,
    names: given.names,
    text: encoded.body,
    body: JSON.parse(encoded.body) as Body,
  };
}

/** A written request, as far as tests look into it. */
export interface Body {
  contents: { role: string; parts: Record<string, unknown>[] }[];
  systemInstruction?: unknown;
  tools?: Record<string, unknown>[];
  toolConfig?: unknown;
  generationConfig?: Record<string, unknown>;
  [member: string]: unknown;
}

/** A request that was recorded. */
export interface RecordedRequest {
  id: string;
  task: "generate" | "count";
  model: string;
  body: Record<string, unknown>;
}

/** All recorded requests of this protocol; none where the recordings are absent. */
export function recordedRequests(): RecordedRequest[] {
  return recordingEntries()
    .filter(({ protocol }) => /^gemini(?:-count-tokens)?$/.test(protocol))
    .flatMap(recordedRequest);
}

function recordedRequest(entry: RecordingEntry): RecordedRequest[] {
  const { id } = entry;
  const { request } = storedExchange(entry);
  if (!request?.body || !request.path) return [];
  const model = /models\/([^:?]+)/.exec(request.path)?.[1] ?? "";
  const task = request.path.includes(":countTokens") ? "count" : "generate";
  return [{ id, task, model: decodeURIComponent(model), body: request.body }];
}
