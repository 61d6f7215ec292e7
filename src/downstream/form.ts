import type { IncomingMessage } from "node:http";
import { Body, notForm } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Form } from "../core/exchange.ts";
import { MAX_MODEL } from "../core/model-name.ts";
import { boundaryOf, FormError, FormScanner } from "../wire/multipart.ts";
import { type BodyLimits, tooLarge } from "./body.ts";
import { BodyPieces } from "./body-pieces.ts";
import { Spool } from "./spool.ts";

/** Bytes of a form that are buffered in memory; more are buffered in a file. */
const MEMORY = 256 * 1024;

/**
 * Reads a form up to its field `model`, which determines the route. What precedes it is buffered, up to the limit, in a file;
 * what follows it is streamed through as it is checked.
 * @param beside names of other short fields to read, as far as they have arrived
 * @param refused reports whether a field may not occur in the form
 * @throws GatewayError `unsupported_media_type`, `unsupported_encoding`, `body_too_large`, `body_timeout`, `invalid_form`,
 *   `invalid_field`, `client_gone`
 */
export async function readForm(
  request: IncomingMessage,
  limits: BodyLimits,
  beside: readonly string[] = [],
  refused?: (name: string) => boolean,
): Promise<{ body: Body; form: Form }> {
  const boundary = boundaryOf(request.headers["content-type"] ?? "");
  if (boundary === undefined)
    throw new GatewayError("unsupported_media_type", {
      message: "This path takes multipart/form-data with a boundary.",
      hint: "Give content-type the parameter boundary, once, with letters and digits, and at most charset=utf-8 beside it.",
    });
  if (request.headers["content-encoding"])
    throw new GatewayError("unsupported_encoding", { hint: "Send the form without content-encoding." });
  const declared = request.headers["content-length"];
  const scanner = new FormScanner(boundary, "model", MAX_MODEL, beside, refused);
  const reader = new FormReader(new BodyPieces(request, limits), scanner, limits.maxBytes, declared);
  try {
    return { body: await reader.begin(), form: reader };
  } catch (thrown) {
    reader.close();
    throw thrown;
  }
}

/** Reads one form. Bytes received but not yet passed on are in `kept`, and those before them in `spool`. */
class FormReader implements Form {
  private readonly kept: Buffer[] = [];
  /** The offsets of `kept` in the form. */
  private from = 0;
  private to = 0;
  private spool: Spool | undefined;
  private ended = false;
  /** The declared length of the whole form. */
  private readonly declared: number | undefined;
  private bodyEnd = 0;

  constructor(
    private readonly pieces: BodyPieces,
    private readonly scanner: FormScanner,
    private readonly maxBytes: number,
    declared: string | undefined,
  ) {
    this.declared = declared === undefined ? undefined : Number(declared);
  }

  /**
   * Reads the bytes around the field `model`. A small form that has fully arrived is read to its end, so that it can be sent
   * again.
   */
  async begin(): Promise<Body> {
    const { scanner } = this;
    // The last chunk arrives slightly before node sets `complete`.
    const here = () => this.pieces.complete || this.to === this.declared;
    while (!scanner.found || (here() && !this.ended && this.to - this.from < MEMORY)) {
      await this.more();
      if (!scanner.found && this.to - this.from > MEMORY) await this.spill();
    }
    const base = this.from;
    const bytes = this.judged();
    this.bodyEnd = this.from;
    return new Body(bytes, undefined, { start: scanner.found.start - base, end: scanner.found.end - base });
  }

  get texts(): ReadonlyMap<string, string> {
    return this.scanner.texts;
  }

  get replayable(): boolean {
    return this.ended;
  }

  around(body: readonly Buffer[]): readonly Buffer[] | AsyncIterable<Buffer> {
    return this.ended && !this.spool ? body : this.whole(body);
  }

  lengthAround(body: number): number | undefined {
    const before = this.spool?.length ?? 0;
    if (this.ended) return before + body;
    return this.declared === undefined ? undefined : before + body + this.declared - this.bodyEnd;
  }

  close(): void {
    this.pieces.close();
    this.spool?.close();
  }

  private async *whole(body: readonly Buffer[]): AsyncGenerator<Buffer> {
    if (this.spool) yield* this.spool.read();
    yield* body;
    while (!this.ended) {
      await this.more();
      const judged = this.judged();
      // The end of the previous piece comes with this one: joined, as each is a write to the provider.
      if (judged.length > 0) yield judged.length === 1 ? (judged[0] as Buffer) : Buffer.concat(judged);
    }
  }

  /** Takes the next piece, or the end. */
  private async more(): Promise<void> {
    const { scanner } = this;
    const piece = await this.pieces.next();
    this.to += piece?.length ?? 0;
    const searching = !scanner.found;
    try {
      if (piece) {
        this.kept.push(piece);
        scanner.push(piece);
      } else scanner.end();
    } catch (error) {
      throw refusal(error);
    }
    if (searching && (scanner.found?.start ?? this.to) > this.maxBytes)
      throw tooLarge(
        this.maxBytes,
        "part in front of the field model of the ",
        "Put the field model before the files.",
      );
    if (piece) return;
    this.ended = true;
    if (!scanner.found)
      throw new GatewayError("invalid_field", { message: 'The form has no field "model".', param: "model" });
  }

  private async spill(): Promise<void> {
    try {
      this.spool ??= await Spool.open();
      await this.spool.write(this.judged());
    } catch (cause) {
      throw new GatewayError("internal", {
        status: 503,
        message: "There is no room to keep the form until its model is known.",
        hint: "Put the field model before the files.",
        cause,
      });
    }
  }

  /** Removes and returns the checked bytes. */
  private judged(): Buffer[] {
    const taken: Buffer[] = [];
    while (this.from < this.scanner.judged) {
      const piece = this.kept.shift() as Buffer;
      const bytes = this.scanner.judged - this.from;
      taken.push(piece.subarray(0, bytes));
      if (bytes < piece.length) this.kept.unshift(piece.subarray(bytes));
      this.from += Math.min(bytes, piece.length);
    }
    return taken;
  }
}

function refusal(error: unknown): GatewayError {
  if (!(error instanceof FormError)) return GatewayError.from(error);
  if (error.field !== undefined)
    return new GatewayError("invalid_field", { message: error.message, param: error.field, cause: error });
  return notForm(error);
}
