import type { IncomingMessage } from "node:http";
import { Body, notJson } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import { Pace, type PaceLimits, type PaceListener } from "../core/pace.ts";
import type { HeaderList } from "../wire/headers.ts";
import { JsonError, kindInWords, Scanner } from "../wire/json.ts";
import { type BodyDecoder, type Coding, checkMediaType, decoder, readCoding } from "./coding.ts";
import { Incoming, type Taker } from "./incoming.ts";

/** The maximum ratio of decoded to received bytes, and the decoded size from which it applies. */
const MAX_RATIO = 100;
const RATIO_FROM = 4 << 20;

/**
 * Limits beyond any real request that protect the parser: members of the body itself, values in total. Token arrays for
 * embeddings are the longest real ones.
 */
const REQUEST = { maxMembers: 1000, maxValues: 400_000 } as const;

/** Small chunks after the first few are copied together: each buffer object takes more memory than a hundred bytes. */
const FEW = 16;
const SMALL = 1024;
const BLOCK = 16 * 1024;

export interface BodyLimits extends PaceLimits {
  /** Maximum bytes of a body, both as received and as decoded. */
  readonly maxBytes: number;
}

/**
 * Reads a request's body, and scans JSON while it arrives. On failure the rest is discarded unread; the error response should
 * close the connection.
 * @param options.go called before the first byte is awaited, and not at all where the head alone refuses the body
 * @throws GatewayError `body_too_large`, `body_timeout`, `client_gone`, `unsupported_encoding`, `unsupported_media_type`,
 *   `invalid_json`, `bad_request`
 */
export function readBody(
  request: IncomingMessage,
  limits: BodyLimits,
  options: { json: boolean; headers: HeaderList; go?: (() => void) | undefined },
): Promise<Body> {
  return new Promise((resolve, reject) => {
    const { headers } = options;
    if (options.json) checkMediaType(headers.get("content-type"));
    const coding = readCoding(headers.get("content-encoding"));
    const announced = headers.get("content-length");
    if (announced !== undefined && Number(announced) > limits.maxBytes) {
      request.resume();
      throw tooLarge(limits.maxBytes);
    }
    if (announced === undefined ? headers.has("transfer-encoding") : Number(announced) !== 0) {
      options.go?.();
      new BodyReader(request, limits, options.json, coding, resolve, reject);
    } else if (options.json) throw empty();
    else resolve(Body.empty);
  });
}

/** Reads one body. */
class BodyReader implements Taker, PaceListener {
  private readonly pieces: Buffer[] = [];
  /** The buffer in which small chunks are collected, and its used bytes. */
  private block: Buffer | undefined;
  private filled = 0;
  private received = 0;
  private length = 0;
  private readonly scanner: Scanner | undefined;
  private readonly decoder: BodyDecoder | undefined;
  private readonly pace: Pace;
  private over = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly limits: BodyLimits,
    json: boolean,
    coding: Coding | undefined,
    private readonly resolve: (body: Body) => void,
    private readonly reject: (error: GatewayError) => void,
  ) {
    this.scanner = json ? new Scanner(REQUEST) : undefined;
    this.pace = new Pace(limits, this);
    if (coding) this.decoder = this.decode(coding);
    request.on("error", this.leave);
    request.on("close", this.leave);
    if (!(request instanceof Incoming && request.handTo(this))) {
      request.on("data", (piece: Buffer) => this.receive(piece));
      request.on("end", () => this.finish());
    }
    if (request.destroyed) this.fail(new GatewayError("client_gone"));
  }

  late(error: GatewayError): void {
    this.fail(error);
  }

  receive(chunk: Buffer): void {
    if (this.over) return;
    this.pace.came(chunk.length);
    if (this.over) return;
    this.received += chunk.length;
    if (this.received > this.limits.maxBytes) this.fail(tooLarge(this.limits.maxBytes));
    else if (this.decoder) this.decoder.write(chunk);
    else this.take(chunk);
  }

  finish(): void {
    if (this.over) return;
    if (this.decoder) this.decoder.end();
    else this.complete();
  }

  private readonly leave = (): void => {
    if (!this.request.complete) this.fail(new GatewayError("client_gone"));
  };

  private take(piece: Buffer): void {
    if (this.over) return;
    this.length += piece.length;
    try {
      this.keep(piece);
    } catch (error) {
      this.fail(refusal(error));
    }
  }

  /** @throws JsonError */
  private keep(piece: Buffer): void {
    if (piece.length >= SMALL || this.pieces.length < FEW) {
      this.flush();
      this.pieces.push(piece);
      this.scanner?.push(piece);
      return;
    }
    if (this.filled + piece.length > BLOCK) this.flush();
    this.block ??= Buffer.allocUnsafe(BLOCK);
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
    this.scanner?.push(piece);
  }

  private complete(): void {
    if (this.over) return;
    try {
      this.flush();
      const scan = this.scanner?.end();
      if (scan && scan.kind !== "object")
        throw new GatewayError("invalid_json", {
          message: `The request body must be a JSON object, not ${kindInWords(scan.kind)}.`,
        });
      this.stop();
      this.resolve(this.length === 0 ? Body.empty : new Body(this.pieces, scan));
    } catch (error) {
      this.fail(refusal(error));
    }
  }

  /** Decodes asynchronously; a decompression bomb is detected by its size relative to the bytes received. */
  private decode(coding: Coding): BodyDecoder {
    return decoder(coding, {
      piece: (piece) => {
        if (this.over) return;
        const maxBytes = this.limits.maxBytes;
        const length = this.length + piece.length;
        if (length > maxBytes) this.fail(tooLarge(maxBytes, "decoded "));
        else if (length > RATIO_FROM && length > MAX_RATIO * (this.decoder?.taken ?? 0)) this.fail(bomb());
        else this.take(piece);
      },
      end: () => this.complete(),
      error: (cause) => this.fail(broken(coding, cause)),
    });
  }

  private fail(error: GatewayError): void {
    if (this.over) return;
    this.stop();
    this.request.on("error", ignore);
    this.request.resume();
    this.reject(error);
  }

  private stop(): void {
    this.over = true;
    this.pace.stop();
    this.decoder?.destroy();
    if (this.request instanceof Incoming) this.request.letGo();
    this.request.off("error", this.leave);
    this.request.off("close", this.leave);
  }
}

const ignore = (): void => {};

const empty = (): GatewayError =>
  new GatewayError("invalid_json", { message: "The request body is empty.", hint: "Send a JSON object." });

/** @param what the part of the body that is too large */
export function tooLarge(maxBytes: number, what = "", hint?: string): GatewayError {
  const limit = Number((maxBytes / 2 ** 20).toFixed(2));
  const message = `The ${what}request body is larger than ${limit} MiB.`;
  return new GatewayError("body_too_large", { message, ...(hint === undefined ? {} : { hint }) });
}

const bomb = (): GatewayError =>
  new GatewayError("body_too_large", {
    message: `The request body grows to more than ${MAX_RATIO} times its size when it is decoded.`,
    hint: "Send it without content-encoding.",
  });

const broken = (coding: Coding, cause: Error): GatewayError =>
  new GatewayError("bad_request", {
    message: `The request body is not valid ${coding}, as its content-encoding says.`,
    hint: "Compress it again, or send it without content-encoding.",
    cause,
  });

function refusal(error: unknown): GatewayError {
  if (!(error instanceof JsonError)) return GatewayError.from(error);
  return error.fault === "empty" ? empty() : notJson(error);
}
