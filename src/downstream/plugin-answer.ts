import type { Answer, Answerer, BodyAnswer } from "../core/answer.ts";
import type { Exchange } from "../core/exchange.ts";
import { isFinalStatus } from "../core/head.ts";
import { awaitPlugin, isThenable, type PluginDeadline, toPluginError } from "../core/plugin-deadline.ts";
import type { Operation } from "../core/protocol.ts";
import { textAnswer } from "../translation/text-answer.ts";
import { framingOf } from "../upstream/attempts.ts";
import { BufferedResponse } from "../upstream/buffered-response.ts";
import type { UpstreamAnswer } from "../upstream/received-answer.ts";
import type { BodyReceiver, UpstreamResponse } from "../upstream/response.ts";
import { addMissing, CHALLENGE, HeaderList, withLength } from "../wire/headers.ts";

/**
 * Returns a plugin's answer in the form of an upstream response.
 * @throws GatewayError that names the plugin whose answer is invalid
 */
export function pluginAnswer(exchange: Exchange, answer: Answer): UpstreamAnswer {
  const answerer = exchange.answerer as Answerer;
  try {
    const encoded = answer.text === undefined ? answer : textAnswer(exchange, answer);
    return buildResponse(encoded, exchange.operation, answerer);
  } catch (thrown) {
    throw toPluginError(thrown, answerer.origin);
  }
}

function buildResponse(
  { status = 200, headers: own = {}, body }: BodyAnswer,
  operation: Operation,
  bound: PluginDeadline,
): UpstreamAnswer {
  if (!isFinalStatus(status)) throw new RangeError(`An answer cannot have the status ${status}.`);
  const bytes = typeof body === "string" ? Buffer.from(body) : Buffer.isBuffer(body) ? body : undefined;
  const type = bytes || operation.framing === "array" ? "application/json" : "text/event-stream";
  const headers = new HeaderList(["content-type", type]);
  // The length is that of the body, whatever it was said to be.
  for (const [name, value] of Object.entries(own)) if (!isLength(name)) headers.set(name, value);
  if (status === 401) addMissing(headers, [CHALLENGE]);
  const usual = framingOf(status, headers.get("content-type"), operation);
  const framing = usual === "array" && bytes && !isArray(bytes) ? undefined : usual;
  // Stages may change the length of a stream. A 204 and a 304 have no body whose length it could be (RFC 9110 §8.6).
  const isSized = bytes && !framing && status !== 204 && status !== 304;
  const sized = isSized ? withLength(headers, bytes.length) : headers;
  const pieces = bytes ? [bytes].values() : piecesOf(body);
  return new BufferedResponse(new AnswerBody(pieces, bound), { status, headers: sized, framing });
}

/** Whether JSON is that of an array, the only one that can be a stream of elements. */
const isArray = (json: Buffer): boolean => /^\s*\[/.test(json.toString("latin1", 0, 100));

const isLength = (name: string): boolean => name.toLowerCase() === "content-length";

/** Ends the answer of an exchange that has failed before it was sent, a plugin's also where nothing was made of it yet. */
export function discardAnswer({ answer: own }: Exchange, answer: UpstreamAnswer | undefined): void {
  if (answer) answer.destroy();
  else if (own) discardPieces(own);
}

function discardPieces({ body, text }: Answer): void {
  if (text !== undefined) return;
  try {
    closePieces(piecesOf(body));
  } catch {
    // Something that gives no pieces has none to end.
  }
}

type AnswerPieces = Iterator<Buffer> | AsyncIterator<Buffer>;

function piecesOf(body: unknown): AnswerPieces {
  const given = Object(body) as Partial<AsyncIterable<Buffer> & Iterable<Buffer>>;
  const pieces = given[Symbol.asyncIterator]?.() ?? given[Symbol.iterator]?.();
  if (!pieces) throw new TypeError("An answer's body is a text, a buffer, or something that gives buffers.");
  return pieces;
}

/** Lets the pieces' source free its resources. A generator that is still running finishes its current step first. */
function closePieces(pieces: AnswerPieces): void {
  // It is the plugin's code, and nobody waits for it.
  new Promise((resolve) => resolve(pieces.return?.())).catch(() => {});
}

/** The body of a plugin's answer, pulled piece by piece as fast as the client reads. */
class AnswerBody implements Pick<UpstreamResponse, "read" | "resume" | "destroy"> {
  private receiver: BodyReceiver | undefined;
  /** Whether the next piece is awaited: one piece is requested at a time, however often this is resumed. */
  private isWaiting = false;
  private over = false;

  constructor(
    private readonly pieces: AnswerPieces,
    private readonly bound: PluginDeadline,
  ) {}

  read(receiver: BodyReceiver): void {
    this.receiver = receiver;
    this.resume();
  }

  resume(): void {
    for (let more = !this.isWaiting; more; ) {
      let next: IteratorResult<Buffer> | PromiseLike<IteratorResult<Buffer>>;
      try {
        next = this.pieces.next();
      } catch (thrown) {
        this.fail(thrown);
        return;
      }
      if (isThenable(next)) {
        this.isWaiting = true;
        awaitPlugin(next, this.bound).then(
          (result) => {
            this.isWaiting = false;
            if (this.handleResult(result)) this.resume();
          },
          (thrown) => this.fail(thrown),
        );
        return;
      }
      more = this.handleResult(next);
    }
  }

  destroy(): void {
    this.receiver = undefined;
    if (!this.over) closePieces(this.pieces);
    this.over = true;
  }

  /** Returns true when the next piece may follow. */
  private handleResult({ done, value }: IteratorResult<Buffer>): boolean {
    const { receiver } = this;
    if (!receiver) return false;
    if (!done) {
      const piece = this.copyPiece(value);
      return piece !== undefined && receiver.chunk(piece);
    }
    this.receiver = undefined;
    this.over = true;
    receiver.end();
    return false;
  }

  /** Copies a piece, as a plugin may reuse its buffer. Undefined: it is not a buffer, and the failure has been reported. */
  private copyPiece(piece: Buffer): Buffer | undefined {
    try {
      return Buffer.from(piece);
    } catch (thrown) {
      this.fail(thrown);
      return undefined;
    }
  }

  private fail(thrown: unknown): void {
    const { receiver } = this;
    this.destroy();
    receiver?.fail(toPluginError(thrown, this.bound.origin));
  }
}
