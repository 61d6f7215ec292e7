import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { request as httpRequest } from "../core/node-http.ts";
import type { Protocol } from "../core/protocol.ts";
import { translationOf } from "../translation/codec.ts";
import type { Conversation } from "../translation/conversation.ts";
import type { Event } from "../translation/events.ts";
import { ToolNames } from "../translation/names.ts";
import { runAtOnce } from "../translation/steps.ts";
import { ArraySplitter } from "../wire/array.ts";
import type { Frame } from "../wire/frame.ts";
import { NestedJson } from "../wire/nested.ts";
import { SseSplitter } from "../wire/sse.ts";
import { splitBytes } from "./scripted-provider.ts";

/** A client's request. */
export interface TestRequest {
  /** The client's protocol, by its name in gateway.yaml. */
  protocol: string;
  /** The requested model; `any` by default. */
  model?: string;
  /** Whether to request a stream; false by default. */
  stream?: boolean;
  /** The user's message; `Hello` by default. */
  text?: string;
  /** The system message; none by default. */
  system?: string;
  /**
   * Members of the body in the protocol's format, merged over the generated ones (`undefined` removes one); or, as text or bytes,
   * the whole body.
   */
  body?: Record<string, unknown> | string | Buffer;
  headers?: Record<string, string>;
  /** The gateway key to send; by default that of the gateway under test. Null: none. */
  key?: string | null;
  /** Path and query, where they are not the protocol's usual ones. */
  path?: string;
  /** The method, where it is not the protocol's usual one. Another one than `POST` sends no body, unless `body` is given. */
  method?: string;
  /** Size in bytes of the pieces in which request and response are sent; by default one piece per frame. */
  chunkBytes?: number;
  /** Bytes of the response's body after which the client leaves; by default it stays. */
  disconnectAfterBytes?: number;
}

/** A request in its wire form. */
interface EncodedTest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

/** A response as the client got it. */
export interface ClientResponse {
  /** 0: there was none. */
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** False where it broke off. */
  isComplete: boolean;
}

/** The content of a response, in any protocol. */
export interface ResponseContent {
  text: string;
  reasoning: string;
  calls: { name: string; arguments: string }[];
}

/** Encodes a request in its protocol. @throws Error for one that needs an explicit body */
export function encodeTest(protocol: Protocol, asked: TestRequest): EncodedTest {
  const { model = "any", stream = false, body, headers = {} } = asked;
  const { method: own = "POST", path: at = protocol.paths[0] ?? "/" } = asked;
  if (body === undefined && own !== "POST") return { method: own, path: at, headers, body: Buffer.alloc(0) };
  const { method = "POST", path, json } = encodeConversation(protocol, asked, model, stream);
  const isWhole = typeof body === "string" || Buffer.isBuffer(body);
  const bytes = Buffer.from(isWhole ? body : JSON.stringify({ ...json, ...body }));
  return {
    method: asked.method ?? method,
    path: asked.path ?? path,
    headers: { "content-type": "application/json", ...headers, "content-length": String(bytes.length) },
    body: bytes,
  };
}

function encodeConversation(
  protocol: Protocol,
  { text = "Hello", system, body, path }: TestRequest,
  model: string,
  stream: boolean,
): { method?: string; path: string; json: Record<string, unknown> } {
  const encode = translationOf(protocol)?.request.encode;
  const [usual = "/"] = protocol.paths;
  if (!encode) {
    if (body === undefined) throw new Error(`A request in ${protocol.name} is not made of text: give its body.`);
    return { path: path ?? usual, json: { model } };
  }
  const conversation: Conversation = {
    protocol: protocol.name,
    task: "generate",
    stream,
    turns: [...(system === undefined ? [] : [turnOf("system", system)]), turnOf("user", text)],
    tools: [],
    uses: [],
  };
  const ignore = (): void => {};
  const refuse = (at: string, why: string): never => {
    throw new Error(`${at}: ${why}`);
  };
  const context = {
    client: protocol.name,
    model,
    facts: {},
    names: new ToolNames(),
    nested: new NestedJson(),
    drop: ignore,
    change: ignore,
    refuse,
  };
  const { operation, query, body: json } = runAtOnce(encode(conversation, context));
  const written = `${protocol.versionSegment}${operation.upstream(model)}${query === undefined ? "" : `?${query}`}`;
  return { method: operation.method, path: written, json: JSON.parse(json) as Record<string, unknown> };
}

const turnOf = (role: "system" | "user", text: string): Conversation["turns"][number] => ({
  role,
  parts: [{ kind: "text", text, at: "" }],
  at: "",
});

/**
 * Sends a request on a connection of its own, and reads the response to its end, however it ends.
 * @throws RangeError for a size of pieces that is none
 */
export function sendTest(
  socket: Socket,
  { method, path, headers, body }: EncodedTest,
  {
    chunkBytes,
    disconnectAfterBytes = Number.POSITIVE_INFINITY,
  }: Pick<TestRequest, "chunkBytes" | "disconnectAfterBytes">,
): Promise<ClientResponse> {
  const { promise, resolve } = Promise.withResolvers<ClientResponse>();
  const pieces: Buffer[] = [];
  let length = 0;
  const got: ClientResponse = { status: 0, headers: {}, body: Buffer.alloc(0), isComplete: false };
  const over = () => resolve({ ...got, body: Buffer.concat(pieces) });
  const bodyPieces = chunkBytes === undefined ? [body] : [...splitBytes(body, chunkBytes)];
  const outgoing = httpRequest({ method, path, headers, createConnection: () => socket });
  outgoing.on("error", over);
  outgoing.on("response", (response) => {
    got.status = response.statusCode ?? 0;
    got.headers = response.headers as Record<string, string>;
    if (disconnectAfterBytes <= 0) outgoing.destroy();
    response.on("data", (piece: Buffer) => {
      pieces.push(piece);
      length += piece.length;
      if (length >= disconnectAfterBytes) outgoing.destroy();
    });
    response.on("error", () => {});
    response.on("end", () => (got.isComplete = response.complete));
    response.on("close", over);
  });
  void writePieces(outgoing, bodyPieces);
  return promise;
}

async function writePieces(
  outgoing: { write(piece: Buffer): unknown; end(): unknown },
  pieces: readonly Buffer[],
): Promise<void> {
  for (const piece of pieces) {
    if (piece.length > 0) outgoing.write(piece);
    await turn();
  }
  outgoing.end();
}

/** Returns the frames of a stream; none for another response. */
export function responseFrames({ headers, body }: ClientResponse, stream: boolean): Frame[] {
  const type = headers["content-type"] ?? "";
  if (type.startsWith("text/event-stream")) return new SseSplitter().push(body);
  return stream && body[0] === "[".charCodeAt(0) ? new ArraySplitter().push(body) : [];
}

/** Returns the content of a response; empty for an error, for an invalid response, and for a protocol without conversations. */
export function responseContent(protocol: Protocol, got: ClientResponse, stream: boolean): ResponseContent {
  const words: ResponseContent = { text: "", reasoning: "", calls: [] };
  const response = translationOf(protocol)?.response;
  if (!response || got.status >= 300 || got.body.length === 0) return words;
  const source = { account: "test", model: "test" };
  const frames = responseFrames(got, stream);
  const events: Event[] = [];
  if (frames.length === 0) {
    try {
      events.push(...runAtOnce(response.decode(got.body, source)));
    } catch {
      return words;
    }
  } else {
    const decoder = response.decoder(source);
    for (const frame of frames) decoder.frame(frame, events);
    decoder.end(events);
  }
  collectContent(events, words);
  return words;
}

function collectContent(events: readonly Event[], words: ResponseContent): void {
  const calls = new Map<number, ResponseContent["calls"][number]>();
  const kinds = new Map<number, string>();
  for (const event of events) {
    if (event.type === "open") {
      kinds.set(event.block, event.kind);
      if (event.kind !== "tool_call") continue;
      const call = { name: event.name, arguments: "" };
      calls.set(event.block, call);
      words.calls.push(call);
    } else if (event.type === "text")
      words[kinds.get(event.block) === "reasoning" ? "reasoning" : "text"] += event.text;
    else if (event.type === "arguments") {
      const call = calls.get(event.block);
      if (call) call.arguments += event.text;
    }
  }
}
