import type { IncomingMessage } from "node:http";
import { Body, invalidJsonError } from "../core/body.ts";
import { type BodyRateLimits, type BodyRateListener, BodyRateMonitor } from "../core/body-rate.ts";
import { type BufferAccount, noRoomError, type PreemptListener, UNCOUNTED_BYTES } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { isDecompressionBomb, MAX_RATIO } from "../wire/decompression-bomb.ts";
import type { HeaderList } from "../wire/headers.ts";
import { JsonError, Scanner } from "../wire/json.ts";
import { describeKind } from "../wire/members.ts";
import {
  type BodyDecoder,
  type Coding,
  checkMediaType,
  createBodyDecoder,
  DECODER_WINDOWS,
  readCoding,
} from "./coding.ts";
import { type BodyConsumer, ServerRequest } from "./server-request.ts";

/**
 * Limits beyond any real request that protect the parser: members of the body itself, values in total. Token arrays for
 * embeddings are the longest real ones.
 */
const [MAX_MEMBERS, MAX_VALUES] = [1000, 400_000] as const;

/** Small chunks after the first few are copied together: each buffer object takes more memory than a hundred bytes. */
const FIRST_CHUNKS = 16;
const SMALL_CHUNK = 1024;
const BLOCK_BYTES = 16 * 1024;

/** How large and how complex a request's body may be, and how slowly it may arrive. */
export interface BodyLimits extends BodyRateLimits {
  /** Maximum bytes of a body, both as received and as decoded. */
  readonly maxBytes: number;
  /** Maximum levels of JSON; default 128. */
  readonly depth?: number;
  /** Maximum names in JSON; default 50,000. */
  readonly names?: number;
  /** Maximum size of a decoded body compared with its compressed size; default 100. */
  readonly ratio?: number;
}

/**
 * Opens the account of a body in the memory for all that are being received, once it has more than `UNCOUNTED_BYTES`.
 * @param largest bytes that a single body may take in any case
 * @param onPreempted as of `BufferMemory.account`
 */
export type OpenBufferAccount = (largest: number, onPreempted: PreemptListener) => BufferAccount;

export interface BodyReaderOptions {
  readonly headers: HeaderList;
  readonly openAccount: OpenBufferAccount;
  beforeRead?(): void;
  /** As of `Exchange`; the gateway can break off a request whose client goes on sending. */
  onAbort?(listener: () => void): () => void;
}

/**
 * Reads a request's body, a JSON object, and scans it while it arrives. On failure the rest is discarded unread; the error response
 * should close the connection.
 * @param options.beforeRead called before the first byte is awaited, and not at all where the head alone refuses the body
 * @throws GatewayError `body_too_large`, `body_timeout`, `client_gone`, `unsupported_encoding`, `unsupported_media_type`,
 *   `invalid_json`, `bad_request`, `rate_limit_exceeded`, `overloaded`
 */
export function readBody(request: IncomingMessage, limits: BodyLimits, options: BodyReaderOptions): MaybePromise<Body> {
  const { headers } = options;
  checkMediaType(headers.get("content-type"));
  const coding = readCoding(headers.get("content-encoding"));
  const length = headers.get("content-length");
  const announced = length === undefined ? undefined : Number(length);
  if (announced !== undefined && announced > limits.maxBytes) {
    request.resume();
    throw bodyTooLarge(limits.maxBytes);
  }
  const isEmpty = announced === undefined ? !headers.has("transfer-encoding") : announced === 0;
  if (isEmpty) throw emptyBody();
  options.beforeRead?.();
  return new BodyReader(request, limits, options, coding).result();
}

class BodyReader implements BodyConsumer, BodyRateListener {
  private pieces: Buffer[] = [];
  /** The buffer in which small chunks are collected, and its used bytes. */
  private block: Buffer | undefined;
  private filled = 0;
  private received = 0;
  private length = 0;
  private readonly scanner: Scanner;
  private readonly decoder: BodyDecoder | undefined;
  /** Set once it must still arrive. */
  private pace: BodyRateMonitor | undefined;
  /** Number of chunks received before that. */
  private chunks = 0;
  private account: BufferAccount | undefined;
  /** What has become of it, if that is known before anybody waits for it. */
  private outcome: Body | GatewayError | undefined;
  private waiting: Pick<PromiseWithResolvers<Body>, "resolve" | "reject"> | undefined;
  private over = false;
  private endWatch: (() => void) | undefined;

  constructor(
    private readonly request: IncomingMessage,
    private readonly limits: BodyLimits,
    private readonly options: BodyReaderOptions,
    private readonly coding: Coding | undefined,
  ) {
    const { depth: maxDepth = 128, names: maxKeys = 50_000 } = limits;
    this.scanner = new Scanner({ maxMembers: MAX_MEMBERS, maxValues: MAX_VALUES, maxDepth, maxKeys });
    if (coding) this.decoder = this.decode(coding);
    if (!(request instanceof ServerRequest && request.deliverTo(this))) {
      request.on("data", (piece: Buffer) => this.onChunk(piece));
      request.on("end", () => this.onEnd());
    }
    if (request.destroyed) this.fail(new GatewayError("client_gone"));
    // Nearly all bodies are complete by now.
    if (!this.over) this.watchArrival();
  }

  /** Watches a body that is still arriving: whether its client stays, and how fast it comes. */
  private watchArrival(): void {
    const { request } = this;
    const onClose = (): void => {
      if (!request.complete) this.fail(new GatewayError("client_gone"));
    };
    request.on("error", onClose);
    request.on("close", onClose);
    const pace = new BodyRateMonitor(this.limits, this);
    let unsubscribe: (() => void) | undefined;
    const endWatch = (): void => {
      request.off("error", onClose);
      request.off("close", onClose);
      unsubscribe?.();
      pace.stop();
    };
    this.endWatch = endWatch;
    this.pace = pace;
    pace.addBytes(this.received, this.chunks);
    if (!this.over) unsubscribe = this.options.onAbort?.(() => this.fail(new GatewayError("client_gone")));
  }

  /**
   * Returns the body: at once if all of it has come, as nearly all have.
   * @throws GatewayError
   */
  result(): MaybePromise<Body> {
    const { outcome } = this;
    if (outcome instanceof Body) return outcome;
    if (outcome) throw outcome;
    const { promise, resolve, reject } = Promise.withResolvers<Body>();
    this.waiting = { resolve, reject };
    return promise;
  }

  onTooSlow(error: GatewayError): void {
    this.fail(error);
  }

  onChunk(chunk: Buffer): void {
    if (this.over) return;
    if (this.pace) this.pace.addBytes(chunk.length);
    else this.chunks++;
    if (this.over) return;
    this.received += chunk.length;
    if (this.received > this.limits.maxBytes) this.fail(bodyTooLarge(this.limits.maxBytes));
    else if (this.decoder) this.decoder.write(chunk);
    else this.addPiece(chunk);
    this.countMemory();
  }

  onEnd(): void {
    if (this.over) return;
    if (this.decoder) this.decoder.end();
    else this.complete();
  }

  private addPiece(piece: Buffer): void {
    if (this.over) return;
    this.length += piece.length;
    try {
      this.bufferPiece(piece);
    } catch (error) {
      this.fail(bodyError(error));
    }
  }

  /** Counts the bytes that are kept, and gives the body up where there is no room for them. */
  private countMemory(): void {
    if (this.over) return;
    const { coding, decoder, length } = this;
    const window = coding ? DECODER_WINDOWS[coding] : 0;
    const waiting = decoder ? this.received - decoder.consumed() : 0;
    const bytes = length + Math.min(length, window) + waiting;
    if (bytes <= UNCOUNTED_BYTES && !this.account) return;
    this.account ??= this.options.openAccount(this.limits.maxBytes + window, (error) => this.fail(error));
    const exceeded = this.account.set(bytes);
    if (exceeded !== undefined) this.fail(noRoomError(exceeded));
  }

  /** @throws JsonError */
  private bufferPiece(piece: Buffer): void {
    if (piece.length >= SMALL_CHUNK || this.pieces.length < FIRST_CHUNKS) {
      this.flush();
      // Nearly always the only one, for which `push` would take the room of 17.
      if (this.pieces.length === 0) this.pieces = [piece];
      else this.pieces.push(piece);
      this.scanner.push(piece);
      return;
    }
    if (this.filled + piece.length > BLOCK_BYTES) this.flush();
    this.block ??= Buffer.allocUnsafe(BLOCK_BYTES);
    this.filled += piece.copy(this.block, this.filled);
  }

  /**
   * Scans collected small chunks together: each scan costs as much as hundreds of bytes.
   * @throws JsonError
   */
  private flush(): void {
    const { block } = this;
    if (!block) return;
    const piece = block.subarray(0, this.filled);
    this.block = undefined;
    this.filled = 0;
    this.pieces.push(piece);
    this.scanner.push(piece);
  }

  private complete(): void {
    if (this.over) return;
    try {
      this.flush();
      const scan = this.scanner.end();
      if (scan.kind !== "object")
        throw new GatewayError("invalid_json", {
          message: `The request body must be a JSON object, not ${describeKind(scan.kind)}.`,
        });
      this.stop();
      this.account?.protect();
      this.account?.set(this.length);
      const body = new Body(this.pieces, scan);
      if (this.waiting) this.waiting.resolve(body);
      else this.outcome = body;
    } catch (error) {
      this.fail(bodyError(error));
    }
  }

  /** Decodes asynchronously; a decompression bomb is detected by its size relative to the bytes received. */
  private decode(coding: Coding): BodyDecoder {
    return createBodyDecoder(coding, {
      piece: (piece) => {
        if (this.over) return;
        const { maxBytes, ratio = MAX_RATIO } = this.limits;
        const length = this.length + piece.length;
        if (length > maxBytes) this.fail(bodyTooLarge(maxBytes, "decoded "));
        else if (isDecompressionBomb(length, this.decoder?.consumed() ?? 0, ratio)) this.fail(decompressionBomb(ratio));
        else this.addPiece(piece);
        this.countMemory();
      },
      end: () => this.complete(),
      error: (cause) => this.fail(invalidEncoding(coding, cause)),
    });
  }

  private fail(error: GatewayError): void {
    if (this.over) return;
    this.stop();
    this.account?.close();
    this.pieces.length = 0;
    this.request.on("error", ignore);
    this.request.resume();
    if (this.waiting) this.waiting.reject(error);
    else this.outcome = error;
  }

  private stop(): void {
    this.over = true;
    this.endWatch?.();
    this.decoder?.destroy();
    if (this.request instanceof ServerRequest) this.request.detachConsumer();
  }
}

const ignore = (): void => {};

const emptyBody = (): GatewayError =>
  new GatewayError("invalid_json", { message: "The request body is empty.", hint: "Send a JSON object." });

/** @param what the part of the body that is too large */
export function bodyTooLarge(maxBytes: number, what = "", hint?: string): GatewayError {
  const [size, unit] = maxBytes < 2 ** 20 ? [2 ** 10, "KiB"] : [2 ** 20, "MiB"];
  const message = `The ${what}request body is larger than ${Number((maxBytes / size).toFixed(2))} ${unit}.`;
  return new GatewayError("body_too_large", { message, ...(hint === undefined ? {} : { hint }) });
}

const decompressionBomb = (ratio: number): GatewayError =>
  new GatewayError("body_too_large", {
    message: `The request body grows to more than ${ratio} times its size when it is decoded.`,
    hint: "Send it without content-encoding.",
  });

const invalidEncoding = (coding: Coding, cause: Error): GatewayError =>
  new GatewayError("bad_request", {
    message: `The request body is not valid ${coding}, as its content-encoding says.`,
    hint: "Compress it again, or send it without content-encoding.",
    cause,
  });

function bodyError(error: unknown): GatewayError {
  if (!(error instanceof JsonError)) return GatewayError.from(error);
  return error.fault === "empty" ? emptyBody() : invalidJsonError(error);
}
