import type { IncomingMessage, ServerResponse } from "node:http";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { newId } from "../core/id.ts";
import { Marketplace } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Stage } from "../core/stage.ts";
import type { UpstreamAnswer } from "../upstream/attempts.ts";
import { linger } from "./linger.ts";
import { ResponseStream } from "./response-stream.ts";
import { ResponseWriter, STALLED } from "./response-writer.ts";

/** Answers one exchange, once, in the client's own protocol. */
export class Reply {
  private readonly writer: ResponseWriter;
  private running: ResponseStream | undefined;

  /** @param persist called before the last bytes of an answer leave */
  constructor(
    private readonly exchange: Exchange,
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    persist: () => void,
  ) {
    this.writer = new ResponseWriter(response, persist);
  }

  /** Runs `leave` when the client leaves, at once if it has; the answer takes it back. */
  onAbort(leave: () => void): () => void {
    return this.exchange.onAbort(leave);
  }

  /** Head, then frames through the stages; settles when the answer has ended. */
  stream(upstream: UpstreamAnswer, stages: readonly Stage[]): Promise<void> {
    const { head } = upstream;
    const { exchange } = this;
    exchange.status = head.status;
    exchange.streaming = head.framing !== undefined;
    const lines = [...head.headers.lines];
    addOwn(lines, exchange);
    if (isKept(this.request) && !head.headers.has("cache-control")) lines.push(...UNCACHED);
    if (head.framing) lines.push("x-accel-buffering", "no");
    this.writer.head(head.status, lines, head.framing !== undefined);
    return new Promise((done, fail) => {
      const ended = (): void => {
        if (exchange.error) exchange.outcome = outcomeOf(exchange.error, exchange);
        else if (head.status >= 400 && !exchange.answerer) exchange.outcome = "upstream_error";
        done();
      };
      this.running = new ResponseStream(exchange, upstream, stages, this.writer, { done: ended, fail });
      upstream.read(this.running);
    });
  }

  /** Header lines of every response besides its own: name, value, … */
  ownHeaders(): string[] {
    const lines: string[] = [];
    addOwn(lines, this.exchange);
    return lines;
  }

  /**
   * Ends the exchange with an error, whatever state it is in. Never throws.
   * @param now before it is recorded: as the answer to a handshake, whose socket is closed next
   */
  refuse(thrown: unknown, now = false): void {
    const { exchange, writer } = this;
    // What breaks behind an interruption breaks because of it.
    const error = exchange.interruption ?? GatewayError.from(thrown);
    exchange.error = error;
    exchange.outcome = outcomeOf(error, exchange);
    const { response } = writer;
    if (exchange.aborted || error.code === "client_gone") {
      exchange.status ||= error.status;
      writer.drop();
      return;
    }
    if (!response.headersSent) {
      exchange.status = error.status;
      // What there was of a whole answer has not left.
      exchange.written = 0;
      exchange.firstByte = undefined;
      const lines = [...attemptLines(exchange), ...noticeLines(exchange, exchange.dropped)];
      const answer = () => refuse(this.request, response, exchange.protocol, error, exchange.id, lines);
      if (now) answer();
      else writer.conclude(answer);
      return;
    }
    let last: Buffer | undefined;
    if (this.running && exchange.streaming) {
      const { state } = this.running;
      const told = exchange.protocol.streamError(error, exchange.id, state);
      // A chunk of its own: One vendor's SDK looks for an error in what one read brings, and only if that is all of it.
      writer.flush();
      // An array is whole with its error and its bracket: who reads it as one text would lose both with the connection.
      if (state.operation.framing === "array" && told.length > 0 && response.chunkedEncoding) {
        writer.write([told]);
        writer.end();
        return;
      }
      last = told;
    }
    writer.conclude(() => {
      if (last) writer.write([last]);
      writer.cut();
    });
  }
}

/** Caches in front know nothing of most places in which a key stands: to them the answers for all keys are one. */
const UNCACHED = ["cache-control", "no-store"];

/** Whether a cache could keep the answer (RFC 9111 §3). */
const isKept = ({ method }: IncomingMessage): boolean => method === "GET" || method === "HEAD";

/** Refusals behind which nothing more is read from the connection. */
const CLOSING: ReadonlySet<string> = new Set(
  "bad_request headers_too_large body_timeout draining interrupted".split(" "),
);

/** Writes an error in a protocol's dialect; also for requests that never became an exchange. */
export function refuse(
  request: IncomingMessage,
  response: ServerResponse,
  protocol: Protocol,
  error: GatewayError,
  id: string,
  extra: readonly string[] = [],
): void {
  const body = Buffer.from(protocol.error(error, id));
  const lines = [
    "content-type",
    "application/json",
    "content-length",
    String(body.length),
    ...idLines(protocol, id),
    ...extra,
  ];
  if (!error.retry) lines.push("x-should-retry", "false");
  if (error.allow) lines.push("allow", error.allow.join(", "));
  if (isKept(request)) lines.push(...UNCACHED);
  if (error.retryAfter !== undefined) lines.push(...waitLines(error.retryAfter));
  // A second request must not follow framing that is in doubt, nor a body of which nobody knows whether it will come.
  const waiting = request.headers.expect !== undefined && !request.complete;
  if (waiting || CLOSING.has(error.code)) lines.push("connection", "close");
  response.writeHead(error.status, lines);
  // Whoever was too slow to be heard is not waited for again.
  if (request.complete || request.destroyed || error.code === "body_timeout") finish(response, body);
  else linger(request, response, body);
}

/** Stands for an id in an answer that is made once; as long as one. */
const ANY_ID = newId(0);
/** What is answered while there is too much to do, for each protocol: its body up to the id, behind it, …, and its size. */
const shedBodies = new WeakMap<Protocol, { parts: readonly string[]; length: string }>();

/** Refuses a request because there is too much to do, at as little cost as can be. @param retryAfter seconds */
export function shed(
  request: IncomingMessage,
  response: ServerResponse,
  protocol: Protocol,
  id: string,
  retryAfter: number,
): void {
  if (!request.complete) {
    refuse(request, response, protocol, new GatewayError("overloaded", { retryAfter }), id);
    return;
  }
  let body = shedBodies.get(protocol);
  if (!body) {
    const text = protocol.error(new GatewayError("overloaded", { retryAfter }), ANY_ID);
    body = { parts: text.split(ANY_ID), length: String(Buffer.byteLength(text)) };
    shedBodies.set(protocol, body);
  }
  const lines = ["content-type", "application/json", "content-length", body.length];
  lines.push(...idLines(protocol, id), ...waitLines(retryAfter));
  if (isKept(request)) lines.push(...UNCACHED);
  response.writeHead(503, lines);
  finish(response, body.parts.join(id));
}

/**
 * Ends an answer of the gateway's own; a client that does not take it is given up.
 * @param stalled milliseconds
 */
export function finish(response: ServerResponse, body: Buffer | string, stalled = STALLED): void {
  response.end(body);
  if (!response.socket || response.socket.writableLength === 0) return;
  response.setTimeout(stalled, () => response.destroy());
  // In front of node's own listener, which limits how long the connection is kept unused.
  response.prependOnceListener("finish", () => response.setTimeout(0));
}

/** Whole seconds for everybody, and the exact time for who reads it. */
const waitLines = (seconds: number): string[] => [
  "retry-after",
  String(Math.ceil(seconds)),
  "retry-after-ms",
  String(Math.ceil(seconds * 1000)),
];

function outcomeOf(error: GatewayError, exchange: Exchange): Exchange["outcome"] {
  if (error.code === "client_gone" || exchange.aborted) return "aborted";
  if (error.code === "interrupted" || error.code === "cancelled") return "interrupted";
  if (error.code.startsWith("upstream_")) return "upstream_error";
  if (error.status >= 500) return "failed";
  // What a provider refused is its refusal in whatever words it is told, also where those are the gateway's own.
  const { status } = exchange.attempt ?? {};
  const refused = status !== undefined && (status >= 400 || error.code === "context_length_exceeded");
  return refused ? "upstream_error" : "rejected";
}

const idLines = (protocol: Protocol, id: string): string[] => [
  "x-request-id",
  id,
  ...(protocol.idHeaders ?? []).flatMap((name) => [name, id]),
];

function noticeLines({ notices, replyHeaders }: Exchange, dropped: readonly string[]): string[] {
  const lines = [...replyHeaders];
  for (const notice of notices) lines.push("gateway-notice", headerSafe(notice));
  if (dropped.length > 0) lines.push("gateway-dropped", headerSafe(listed(dropped)));
  return lines;
}

/** Characters of a list in a header; what follows is counted. */
const LIST = 2048;

function listed(paths: readonly string[]): string {
  let text = "";
  for (const [i, path] of paths.entries()) {
    if (text.length + path.length > LIST) return `${text}${text === "" ? "" : ", "}+${paths.length - i}`;
    text += text === "" ? path : `, ${path}`;
  }
  return text;
}

/** Who has answered, or was asked last, and how many tries there were. */
function attemptLines({ attempt, tries, model, dryRun }: Exchange): string[] {
  if (!attempt) return model && !dryRun ? ["gateway-model", model.id, "gateway-attempts", "0"] : [];
  const { serves } = attempt.target;
  const lines = ["gateway-target", headerSafe(Marketplace.nameOf(attempt.target)), "gateway-attempts", String(tries)];
  return serves === undefined ? lines : ["gateway-model", serves, ...lines];
}

/** What every answer carries besides its own head. */
function addOwn(lines: string[], exchange: Exchange): void {
  const { id, protocol, notices, replyHeaders, dropped, droppedFromAnswer } = exchange;
  lines.push("x-request-id", id);
  lines.push(...attemptLines(exchange));
  if (protocol.idHeaders) for (const name of protocol.idHeaders) lines.push(name, id);
  if (replyHeaders.length > 0 || notices.length > 0 || dropped.length > 0 || droppedFromAnswer.length > 0)
    lines.push(...noticeLines(exchange, [...dropped, ...droppedFromAnswer]));
}

/** Header values are one line of printable ASCII. */
const headerSafe = (text: string): string => (UNPRINTABLE.test(text) ? text.replaceAll(/[^\x20-\x7e]/g, "?") : text);
const UNPRINTABLE = /[^\x20-\x7e]/;
