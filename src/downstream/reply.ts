import type { IncomingMessage, ServerResponse } from "node:http";
import { finished } from "node:stream";
import { GatewayError, thrownStack } from "../core/errors.ts";
import type { AbortListener, Exchange } from "../core/exchange.ts";
import { newId } from "../core/id.ts";
import type { Log } from "../core/log.ts";
import { Marketplace } from "../core/marketplace.ts";
import { keepTexts } from "../core/notices.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Protocol } from "../core/protocol.ts";
import { shorten } from "../core/shorten.ts";
import type { Stage } from "../core/stage.ts";
import type { UpstreamAnswer } from "../upstream/received-answer.ts";
import { CHALLENGE, checkHeaderLines } from "../wire/headers.ts";
import { linger } from "./linger.ts";
import { ResponseStream } from "./response-stream.ts";
import { ResponseWriter, STALL_TIMEOUT } from "./response-writer.ts";

/** Sends the response of one exchange, once, in the client's own protocol. */
export class Reply {
  private readonly writer: ResponseWriter;
  private readonly log: Log;
  private running: ResponseStream | undefined;
  /** How the response has ended, and what waits for that. */
  private hasEnded = false;
  private failure: { readonly error: unknown } | undefined;
  private waiting: PromiseWithResolvers<void> | undefined;

  constructor(
    private readonly exchange: Exchange,
    readonly request: IncomingMessage,
    readonly response: ServerResponse,
    { upstreams, config, log }: ReplyParts,
    private readonly expectsContinue = false,
  ) {
    this.log = log;
    const { stalled } = config.connections;
    this.writer = new ResponseWriter(response, upstreams.persist, this, stalled);
  }

  /** Asks the client for the body, if it waits for that. */
  sendContinue(): void {
    if (this.expectsContinue) this.response.writeContinue();
  }

  addAbortListener(listener: AbortListener): void {
    this.exchange.addAbortListener(listener);
  }

  removeAbortListener(listener: AbortListener): void {
    this.exchange.removeAbortListener(listener);
  }

  /**
   * Sends the head, then frames through the stages. Returns when the response has ended, as a short one has at once; else a promise
   * that settles then.
   * @throws GatewayError `client_gone` if the exchange has been broken off since the answer came: nothing is sent of it
   */
  stream(upstream: UpstreamAnswer, stages: readonly Stage[]): MaybePromise<void> {
    const { head } = upstream;
    const { exchange } = this;
    if (exchange.isBrokenOff) throw new GatewayError("client_gone");
    exchange.status = head.status;
    exchange.streaming = head.framing !== undefined;
    const lines = head.headers.lines.slice();
    this.addGatewayLines(lines);
    if (isCacheable(this.request) && !head.headers.has("cache-control")) lines.push(...UNCACHED);
    if (head.framing) lines.push("x-accel-buffering", "no");
    this.writer.head(head.status, lines, head.framing !== undefined, head.lengthIsOpen);
    this.running = new ResponseStream(exchange, upstream, stages, this.writer, this);
    upstream.read(this.running);
    if (this.failure) throw this.failure.error;
    if (this.hasEnded) return;
    this.waiting = Promise.withResolvers<void>();
    return this.waiting.promise;
  }

  /** Called when the response has ended regularly. */
  done(): void {
    const { exchange } = this;
    if (exchange.error) exchange.outcome = outcomeOf(exchange.error, exchange);
    else if (exchange.status >= 400 && !exchange.answerer) exchange.outcome = "upstream_error";
    this.hasEnded = true;
    this.waiting?.resolve();
  }

  /** Called when it has not. */
  fail(error: unknown): void {
    this.failure = { error };
    this.waiting?.reject(error);
  }

  /** Runs `run` when all bytes of the response have been sent, or its connection is closed. */
  afterDelivery(run: () => void): void {
    finished(this.response, run);
  }

  /** Returns the gateway's own header lines for the response: name, value, … */
  gatewayHeaders(): string[] {
    const lines: string[] = [];
    this.addGatewayLines(lines);
    return lines;
  }

  /**
   * Ends the exchange with an error, in any state. Never throws.
   * @param now sends it before the exchange is recorded: as the response to a handshake, whose socket is closed next
   */
  refuse(thrown: unknown, now = false): void {
    const { exchange, writer } = this;
    // Errors after an interruption are caused by it.
    const error = exchange.interruption ?? GatewayError.from(thrown);
    exchange.error = error;
    exchange.outcome = outcomeOf(error, exchange);
    explainLastAttempt(exchange, error);
    const { response } = writer;
    if (exchange.aborted || error.code === "client_gone") {
      exchange.status ||= error.status;
      writer.drop();
      return;
    }
    if (!response.headersSent) {
      exchange.status = error.status;
      // The buffered part of a whole response has not been sent.
      exchange.written = 0;
      exchange.firstByte = undefined;
      const lines: string[] = [];
      addAttemptLines(lines, exchange);
      lines.push(...this.noticeLines());
      const answer = () => sendErrorResponse(this.request, response, exchange.protocol, error, exchange.id, lines);
      if (now) answer();
      else writer.deferEnd(answer);
      return;
    }
    let last: Buffer | undefined;
    if (this.running && exchange.streaming) {
      const { state } = this.running;
      const errorBytes = exchange.protocol.streamError(error, exchange.id, state);
      // In a chunk of its own: one vendor's SDK looks for an error in the data of a single read, and only if that contains
      // nothing else.
      writer.flush();
      // An array is complete with its error and closing bracket: a client that parses it as one text would lose both if the
      // connection broke.
      if (state.operation.framing === "array" && errorBytes.length > 0 && response.chunkedEncoding) {
        writer.write([errorBytes]);
        writer.end();
        return;
      }
      last = errorBytes;
    }
    writer.deferEnd(() => {
      if (!last) return writer.abort();
      writer.write([last]);
      writer.abortAfterError();
    });
  }

  /** Adds the gateway's own header lines of every response. */
  private addGatewayLines(lines: string[]): void {
    const { id, protocol, notices, replyHeaders, dropped, droppedFromResponse } = this.exchange;
    lines.push("x-request-id", id);
    addAttemptLines(lines, this.exchange);
    if (protocol.idHeaders) for (const name of protocol.idHeaders) lines.push(name, id);
    if (replyHeaders.length > 0 || notices.length > 0 || dropped.length > 0 || droppedFromResponse.length > 0)
      lines.push(...this.noticeLines(droppedFromResponse));
  }

  private noticeLines(droppedFromResponse: readonly string[] = []): string[] {
    const lines = this.replyLines();
    const { notices, dropped } = this.exchange;
    // A plugin that has failed, or goes on after its phase, may have left something else.
    keepTexts(notices, dropped);
    let room = MAX_NOTICES_LENGTH;
    for (const notice of notices) {
      const text = headerSafe(shorten(notice, MAX_LIST_LENGTH));
      room -= text.length;
      if (room < 0) break;
      lines.push("gateway-notice", text);
    }
    const allDropped = [...dropped, ...droppedFromResponse];
    if (allDropped.length > 0) lines.push("gateway-dropped", headerSafe(joinLimited(allDropped)));
    return lines;
  }

  /**
   * Returns the header lines of plugins; none if one cannot be sent, which a plugin added while it failed, or after its phase.
   */
  private replyLines(): string[] {
    const { id, replyHeaders } = this.exchange;
    try {
      checkHeaderLines(replyHeaders);
    } catch (thrown) {
      this.log.warn({ id, cause: String(thrown) }, "the reply headers of plugins cannot be sent, and are left out");
      replyHeaders.splice(0);
    }
    return [...replyHeaders];
  }

  /** Called by the writer with what a write has thrown. */
  onFault(thrown: unknown): void {
    const { id } = this.exchange;
    this.log.error({ id, cause: thrownStack(thrown) }, "a response could not be written, and its connection is closed");
  }
}

/** The parts of a generation that a reply uses. */
export interface ReplyParts {
  /** `persist` is called before the last bytes of a response are sent. */
  upstreams: { readonly persist: () => void };
  config: { readonly connections: { readonly stalled: number } };
  log: Log;
}

/** Caches do not know most places of a key: to them the responses for all keys are the same. */
const UNCACHED = ["cache-control", "no-store"];

/** Reports whether a cache could store the response (RFC 9111 §3). */
const isCacheable = ({ method }: IncomingMessage): boolean => method === "GET" || method === "HEAD";

/** Refusals after which nothing more is read from the connection. */
const CLOSING_CODES: ReadonlySet<string> = new Set(
  "bad_request headers_too_large body_timeout draining interrupted".split(" "),
);

/** Sends an error in a protocol's dialect; also for requests that never became an exchange. */
export function sendErrorResponse(
  request: IncomingMessage,
  response: ServerResponse,
  protocol: Protocol,
  error: GatewayError,
  id: string,
  extra: readonly string[] = [],
): void {
  const body = Buffer.from(protocol.error(error, id));
  const lines = [...idLines(protocol, id), ...extra];
  if (!error.retry) lines.push("x-should-retry", "false");
  if (error.status === 401) lines.push(...CHALLENGE);
  if (error.allow) lines.push("allow", error.allow.join(", "));
  if (isCacheable(request)) lines.push(...UNCACHED);
  if (error.retryAfter !== undefined) lines.push(...retryAfterLines(error.retryAfter));
  // No further request may follow framing that is in doubt. A client that was too slow is not waited for again.
  const closes = CLOSING_CODES.has(error.code);
  sendOwnJson(response, { status: error.status, lines, body, closes, lingers: error.code !== "body_timeout" });
}

/** A response of the gateway's own. */
interface JsonResponse {
  status: number;
  /** Further headers: name, value, … */
  lines: readonly string[];
  body: Buffer;
  /** Whether its connection is closed behind it. */
  closes?: boolean;
  /** Whether the rest of an incomplete request is read and discarded, for a limited time; default true. */
  lingers?: boolean;
}

/** Sends a response of the gateway's own; also to a request of which the body has not arrived, and may never be sent. */
export function sendOwnJson(
  response: ServerResponse,
  { status, lines, body, closes = false, lingers = true }: JsonResponse,
): void {
  const { req: request } = response;
  const expectsContinue = request.headers.expect !== undefined && !request.complete;
  const head = ["content-type", "application/json", "content-length", String(body.length), ...lines];
  if (closes || expectsContinue) head.push("connection", "close");
  response.writeHead(status, head);
  if (request.complete || request.destroyed || !lingers) endResponse(response, body);
  else linger(request, response, body);
}

/** A placeholder id in a response that is built once; with the length of an id. */
const PLACEHOLDER_ID = newId(0);
/** The overload response for each protocol: the parts of its body around the id, and its length. */
const overloadedBodies = new WeakMap<Protocol, { parts: readonly string[]; length: string }>();

/**
 * Refuses a request because of overload, at minimum cost.
 * @param retryAfter seconds
 */
export function sendOverloaded(
  request: IncomingMessage,
  response: ServerResponse,
  protocol: Protocol,
  id: string,
  retryAfter: number,
): void {
  if (!request.complete) {
    sendErrorResponse(request, response, protocol, new GatewayError("overloaded", { retryAfter }), id);
    return;
  }
  const body = overloadedBodies.getOrInsertComputed(protocol, () => {
    const text = protocol.error(new GatewayError("overloaded", { retryAfter }), PLACEHOLDER_ID);
    return { parts: text.split(PLACEHOLDER_ID), length: String(Buffer.byteLength(text)) };
  });
  const lines = ["content-type", "application/json", "content-length", body.length];
  lines.push(...idLines(protocol, id), ...retryAfterLines(retryAfter));
  if (isCacheable(request)) lines.push(...UNCACHED);
  response.writeHead(503, lines);
  endResponse(response, body.parts.join(id));
}

/**
 * Ends a response of the gateway's own; a client that does not read it is disconnected.
 * @param stalled milliseconds
 */
export function endResponse(response: ServerResponse, body: Buffer | string, stalled = STALL_TIMEOUT): void {
  response.end(body);
  if (!response.socket || response.socket.writableLength === 0) return;
  response.setTimeout(stalled, () => response.destroy());
  // Runs before node's own listener, which sets the keep-alive timeout.
  response.prependOnceListener("finish", () => response.setTimeout(0));
}

/** Whole seconds for every client, and milliseconds for clients that read them. */
const retryAfterLines = (seconds: number): string[] => [
  "retry-after",
  String(Math.ceil(seconds)),
  "retry-after-ms",
  String(Math.ceil(seconds * 1000)),
];

/**
 * Gives an attempt that ended without a response the error that ended its exchange: a plugin or a limit has refused it, or whatever
 * broke off the exchange closed it as a client that leaves would.
 */
function explainLastAttempt({ attempts }: Exchange, error: GatewayError): void {
  const last = attempts.at(-1);
  if (last && last.status === undefined && (!last.error || last.error.code === "client_gone")) last.error = error;
}

/** Returns how an exchange has ended that an error ends. */
export function outcomeOf(error: GatewayError, exchange: Exchange): Exchange["outcome"] {
  if (error.code === "client_gone" || exchange.aborted) return "aborted";
  if (error.code === "interrupted" || error.code === "cancelled") return "interrupted";
  if (error.code.startsWith("upstream_")) return "upstream_error";
  if (error.status >= 500) return "failed";
  // A provider's refusal counts as such in any words, including the gateway's own.
  const { status } = exchange.attempt ?? {};
  const refused = status !== undefined && (status >= 400 || error.code === "context_length_exceeded");
  return refused ? "upstream_error" : "rejected";
}

const idLines = (protocol: Protocol, id: string): string[] => [
  "x-request-id",
  id,
  ...(protocol.idHeaders ?? []).flatMap((name) => [name, id]),
];

/** Maximum characters of a list in a header, whose further entries are counted, and of a notice. */
const MAX_LIST_LENGTH = 2048;
/** Maximum characters of all notices in headers, of which many clients take 16 KiB together. */
const MAX_NOTICES_LENGTH = 8192;

function joinLimited(paths: readonly string[]): string {
  let text = "";
  for (const [i, path] of paths.entries()) {
    if (text.length + path.length > MAX_LIST_LENGTH) return `${text}${text === "" ? "" : ", "}+${paths.length - i}`;
    text += text === "" ? path : `, ${path}`;
  }
  return text;
}

/** Adds the target that responded, or was requested last, and the number of tries. */
function addAttemptLines(lines: string[], { attempt, providerRequests, model, dryRun }: Exchange): void {
  if (!attempt) {
    if (model && !dryRun) lines.push("gateway-model", model.id, "gateway-attempts", "0");
    return;
  }
  const { modelId } = attempt.target;
  if (modelId !== undefined) lines.push("gateway-model", modelId);
  lines.push("gateway-target", headerSafe(Marketplace.nameOf(attempt.target)));
  lines.push("gateway-attempts", String(providerRequests));
}

/** Replaces everything but printable ASCII, the characters of a header value. */
const headerSafe = (text: string): string => (UNPRINTABLE.test(text) ? text.replaceAll(/[^\x20-\x7e]/g, "?") : text);
const UNPRINTABLE = /[^\x20-\x7e]/;
