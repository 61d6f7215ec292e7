import type { IncomingMessage } from "node:http";
import { Body } from "../core/body.ts";
import { Deadline } from "../core/deadline.ts";
import { GatewayError } from "../core/errors.ts";
import type { HeaderList } from "../wire/headers.ts";
import { JsonError, kindInWords, Scanner } from "../wire/json.ts";
import { type BodyDecoder, type Coding, checkMediaType, decoder, readCoding } from "./coding.ts";
import { Incoming, type Taker } from "./incoming.ts";

/** How many times its size a compressed body may have once decoded, and from what decoded size on that counts. */
const MAX_RATIO = 100;
const RATIO_FROM = 1 << 20;

export interface BodyLimits {
  /** Bytes of a body, as it comes and as it is once decoded. */
  maxBytes: number;
  /** Milliseconds without a byte; 0: no end. */
  idle: number;
  /** Bytes a second, on average, below which a body is given up; 1 KiB. */
  slowest?: number;
  /** Milliseconds before that counts; 10 s. */
  patience?: number;
}

/**
 * Reads a request's body, and scans it while it arrives when it is JSON. On failure what still comes is thrown away
 * unread; the refusal should close the connection.
 * @throws GatewayError `body_too_large`, `body_timeout`, `client_gone`, `unsupported_encoding`, `unsupported_media_type`,
 * `invalid_json`, `bad_request`
 */
export function readBody(
  request: IncomingMessage,
  limits: BodyLimits,
  options: { json: boolean; headers: HeaderList },
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
    if (announced === undefined ? headers.has("transfer-encoding") : Number(announced) !== 0)
      new BodyReader(request, limits, options.json, coding, resolve, reject);
    else if (options.json) throw empty();
    else resolve(Body.empty);
  });
}

/** One body on its way in. */
class BodyReader implements Taker {
  private readonly pieces: Buffer[] = [];
  private received = 0;
  private length = 0;
  private readonly scanner: Scanner | undefined;
  private readonly decoder: BodyDecoder | undefined;
  private readonly deadline = Deadline.acquire(this);
  private readonly started = performance.now();
  private over = false;

  constructor(
    private readonly request: IncomingMessage,
    private readonly limits: BodyLimits,
    json: boolean,
    coding: Coding | undefined,
    private readonly resolve: (body: Body) => void,
    private readonly reject: (error: GatewayError) => void,
  ) {
    this.scanner = json ? new Scanner() : undefined;
    this.deadline.set(limits.idle);
    if (coding) this.decoder = this.decode(coding);
    request.on("error", this.leave);
    request.on("close", this.leave);
    if (!(request instanceof Incoming && request.handTo(this))) {
      request.on("data", (piece: Buffer) => this.receive(piece));
      request.on("end", () => this.finish());
    }
    if (request.destroyed) this.fail(new GatewayError("client_gone"));
  }

  /** No byte has come for too long. */
  expired(): void {
    this.fail(new GatewayError("body_timeout"));
  }

  receive(chunk: Buffer): void {
    if (this.over) return;
    this.deadline.set(this.limits.idle);
    this.received += chunk.length;
    if (this.received > this.limits.maxBytes) this.fail(tooLarge(this.limits.maxBytes));
    else if (this.crawls())
      this.fail(new GatewayError("body_timeout", { message: "The request body comes too slowly." }));
    else if (this.decoder) this.decoder.write(chunk);
    else this.take(chunk);
  }

  private crawls(): boolean {
    const { slowest = 1024, patience = 10_000 } = this.limits;
    const ms = performance.now() - this.started;
    return ms > patience && this.received < (slowest * ms) / 1000;
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
    this.pieces.push(piece);
    try {
      this.scanner?.push(piece);
    } catch (error) {
      this.fail(refusal(error));
    }
  }

  private complete(): void {
    if (this.over) return;
    try {
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

  /** Decoded pieces come later; a bomb is recognised by its size against what has been received. */
  private decode(coding: Coding): BodyDecoder {
    return decoder(coding, {
      piece: (piece) => {
        if (this.over) return;
        const maxBytes = this.limits.maxBytes;
        const length = this.length + piece.length;
        if (length > maxBytes) this.fail(tooLarge(maxBytes, "decoded "));
        else if (length > RATIO_FROM && length > MAX_RATIO * this.received) this.fail(bomb());
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
    this.deadline.release();
    this.decoder?.destroy();
    if (this.request instanceof Incoming) this.request.letGo();
    this.request.off("error", this.leave);
    this.request.off("close", this.leave);
  }
}

const ignore = (): void => {};

const empty = (): GatewayError =>
  new GatewayError("invalid_json", { message: "The request body is empty.", hint: "Send a JSON object." });

function tooLarge(maxBytes: number, what = ""): GatewayError {
  const limit = Number((maxBytes / 2 ** 20).toFixed(2));
  return new GatewayError("body_too_large", { message: `The ${what}request body is larger than ${limit} MiB.` });
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

/** What the scanner says, in words for the one who sent the body. */
function refusal(error: unknown): GatewayError {
  if (!(error instanceof JsonError)) return GatewayError.from(error);
  if (error.fault === "empty") return empty();
  return new GatewayError("invalid_json", {
    message: `The request body is not valid JSON. ${error.message}`,
    cause: error,
  });
}
