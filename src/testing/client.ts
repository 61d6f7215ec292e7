import { request as askOver } from "node:http";
import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { Protocol } from "../core/protocol.ts";
import { translationOf } from "../translation/codec.ts";
import type { Conversation } from "../translation/conversation.ts";
import type { Event } from "../translation/events.ts";
import { ToolNames } from "../translation/names.ts";
import { ArraySplitter } from "../wire/array.ts";
import type { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import { piecesOf } from "./scripted-provider.ts";

/** What a client asks. */
export interface TestRequest {
  /** The client's protocol, like those that gateway.yaml knows. */
  protocol: string;
  /** The model it names; `any`. */
  model?: string;
  /** Whether it wants a stream; false. */
  stream?: boolean;
  /** What the user says; `Hello`. */
  text?: string;
  /** What is said in front of that as the system; nothing. */
  system?: string;
  /**
   * Members of the body in the protocol's words, put over those that say the above (`undefined` takes one away); or, as text or
   * bytes, the very body.
   */
  body?: Record<string, unknown> | string | Buffer;
  headers?: Record<string, string>;
  /** The gateway key it shows; that of the gateway under test. Null: none. */
  key?: string | null;
  /** Path and query, where they are not the protocol's usual ones. */
  path?: string;
  /** Bytes of each piece in which request and answers travel; a piece for each frame. */
  cut?: number;
  /** Bytes of the answer's body after which the client leaves; it stays. */
  leaveAfter?: number;
}

/** A request as it is sent. */
interface WrittenTest {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer;
}

/** An answer as the client got it. */
export interface GotAnswer {
  /** 0: none came. */
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  /** Whether all of it came. */
  whole: boolean;
}

/** What an answer says, in any protocol. */
export interface SpokenWords {
  text: string;
  reasoning: string;
  calls: { name: string; arguments: string }[];
}

/** Writes a request in its protocol's words. @throws Error for one that needs a body of its own */
export function writeTest(protocol: Protocol, asked: TestRequest): WrittenTest {
  const { model = "any", stream = false, body, headers = {} } = asked;
  const { method = "POST", path, json } = spoken(protocol, asked, model, stream);
  const own = typeof body === "string" || Buffer.isBuffer(body);
  const bytes = Buffer.from(own ? body : JSON.stringify({ ...json, ...body }));
  return {
    method,
    path: asked.path ?? path,
    headers: { "content-type": "application/json", ...headers, "content-length": String(bytes.length) },
    body: bytes,
  };
}

function spoken(
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
  const terms = {
    client: protocol.name,
    model,
    facts: {},
    names: new ToolNames(),
    drop: ignore,
    change: ignore,
    refuse,
  };
  const { operation, query, body: json } = encode(conversation, terms);
  const written = `${protocol.segment}${operation.upstream(model)}${query === undefined ? "" : `?${query}`}`;
  return { method: operation.method, path: written, json: JSON.parse(json) as Record<string, unknown> };
}

const turnOf = (role: "system" | "user", text: string): Conversation["turns"][number] => ({
  role,
  parts: [{ kind: "text", text, at: "" }],
  at: "",
});

/** Sends a request on a connection of its own, and reads the answer to its end, however that is. */
export function sendTest(
  socket: Socket,
  { method, path, headers, body }: WrittenTest,
  { cut, leaveAfter = Number.POSITIVE_INFINITY }: Pick<TestRequest, "cut" | "leaveAfter">,
): Promise<GotAnswer> {
  const { promise, resolve } = Promise.withResolvers<GotAnswer>();
  const pieces: Buffer[] = [];
  let length = 0;
  const got: GotAnswer = { status: 0, headers: {}, body: Buffer.alloc(0), whole: false };
  const over = () => resolve({ ...got, body: Buffer.concat(pieces) });
  const outgoing = askOver({ method, path, headers, createConnection: () => socket });
  outgoing.on("error", over);
  outgoing.on("response", (response) => {
    got.status = response.statusCode ?? 0;
    got.headers = response.headers as Record<string, string>;
    if (leaveAfter <= 0) outgoing.destroy();
    response.on("data", (piece: Buffer) => {
      pieces.push(piece);
      length += piece.length;
      if (length >= leaveAfter) outgoing.destroy();
    });
    response.on("error", () => {});
    response.on("end", () => (got.whole = response.complete));
    response.on("close", over);
  });
  void writePieces(outgoing, body, cut);
  return promise;
}

async function writePieces(
  outgoing: { write(piece: Buffer): unknown; end(): unknown },
  body: Buffer,
  cut: number | undefined,
): Promise<void> {
  for (const piece of cut === undefined ? [body] : piecesOf(body, cut)) {
    if (piece.length > 0) outgoing.write(piece);
    await turn();
  }
  outgoing.end();
}

/** The frames of a stream, or of an answer that is none. */
export function framesOf({ headers, body }: GotAnswer, stream: boolean): Frame[] {
  const type = headers["content-type"] ?? "";
  if (type.startsWith("text/event-stream")) return new SseSplitter().push(body);
  return stream && body[0] === "[".charCodeAt(0) ? new ArraySplitter().push(body) : [];
}

/** What an answer says; nothing where it is an error, none of its protocol, or of one without conversations. */
export function wordsOf(protocol: Protocol, got: GotAnswer, stream: boolean): SpokenWords {
  const words: SpokenWords = { text: "", reasoning: "", calls: [] };
  const response = translationOf(protocol)?.response;
  if (!response || got.status >= 300 || got.body.length === 0) return words;
  const source = { account: "test", model: "test" };
  const frames = framesOf(got, stream);
  const events: Event[] = [];
  if (frames.length === 0) {
    try {
      events.push(...response.decode(got.body.toString(), source));
    } catch {
      return words;
    }
  } else {
    const decoder = response.decoder(source);
    for (const frame of frames) decoder.frame(frame, events);
    decoder.end(events);
  }
  gather(events, words);
  return words;
}

function gather(events: readonly Event[], words: SpokenWords): void {
  const calls = new Map<number, SpokenWords["calls"][number]>();
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
