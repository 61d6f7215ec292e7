import type { IncomingMessage } from "node:http";
import { randomRetryAfter } from "../core/admission.ts";
import { Body, invalidFormError } from "../core/body.ts";
import { type BufferAccount, noRoomError, UNCOUNTED_BYTES } from "../core/buffer-memory.ts";
import { GatewayError } from "../core/errors.ts";
import type { Form } from "../core/form.ts";
import { MAX_MODEL } from "../core/model-name.ts";
import { type FieldReader, FormError, FormScanner, parseBoundary } from "../wire/multipart.ts";
import { joinPieces } from "../wire/pieces.ts";
import { splice } from "../wire/splice.ts";
import { type BodyLimits, bodyTooLarge, type OpenBufferAccount } from "./body.ts";
import { BodyPieces } from "./body-pieces.ts";
import { Spool } from "./spool.ts";

/** Bytes of a form that are buffered in memory; more are buffered in a file. */
const MEMORY_LIMIT = 256 * 1024;

/** Codes of a file system, a quota, a process or a machine that has no room left for a file. */
const FULL: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EMFILE", "ENFILE"]);

const MODEL_FIRST = "Put the field model before the files.";

interface FormReaderOptions {
  readonly openAccount: OpenBufferAccount;
  /** Opens the account of its temporary file. */
  readonly openSpoolAccount: OpenBufferAccount;
  /** Names of other short fields to read, as far as they have arrived. */
  readonly otherFields?: readonly string[] | undefined;
  /** Returns why a field may not occur in the form. */
  readonly whyForbidden?: (name: string) => string | undefined;
  /** Returns what checks the value of any other field but `model`. */
  readonly checkerOf?: FieldReader["receiver"];
  /** Returns the bytes of values that are kept until they can be checked. */
  readonly bytesInChecks?: () => number;
  /** The path names the model: a form without the field gets an empty one, at its end. */
  readonly addsModel?: boolean;
  /** As of `Exchange`; the gateway can break off a request whose client goes on sending. */
  readonly onAbort: (listener: () => void) => () => void;
}

/**
 * Reads a form up to its field `model`, which determines the route. What precedes it is buffered, up to the limit, in a file;
 * what follows it is streamed through as it is checked.
 * @throws GatewayError `unsupported_media_type`, `unsupported_encoding`, `body_too_large`, `body_timeout`, `invalid_form`,
 *   `invalid_field`, `client_gone`, `rate_limit_exceeded`, `overloaded`
 */
export async function readForm(
  request: IncomingMessage,
  limits: BodyLimits,
  options: FormReaderOptions,
): Promise<{ body: Body; form: Form }> {
  const boundary = parseBoundary(request.headers["content-type"] ?? "");
  if (boundary === undefined)
    throw new GatewayError("unsupported_media_type", {
      message: "This path takes multipart/form-data with a boundary.",
      hint: "Give content-type the parameter boundary, once, with letters and digits, and at most charset=utf-8 beside it.",
    });
  if (request.headers["content-encoding"])
    throw new GatewayError("unsupported_encoding", { hint: "Send the form without content-encoding." });
  const declared = request.headers["content-length"];
  const { otherFields, whyForbidden, checkerOf } = options;
  const scanner = new FormScanner(boundary, "model", MAX_MODEL, otherFields, whyForbidden, checkerOf);
  const pieces = new BodyPieces(request, limits);
  const addedField = options.addsModel
    ? `\r\n--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\n`
    : undefined;
  const reader = new FormReader(pieces, scanner, limits.maxBytes, declared, options, addedField);
  const unsubscribe = options.onAbort(() => pieces.abort(new GatewayError("client_gone")));
  try {
    return { body: await reader.readToModel(), form: reader };
  } catch (thrown) {
    reader.close();
    throw thrown;
  } finally {
    unsubscribe();
  }
}

/** Reads one form. Bytes received but not yet passed on are in `buffered`, and those before them in `spool`. */
class FormReader implements Form {
  private readonly buffered: Buffer[] = [];
  /** The offsets of `buffered` in the form. */
  private from = 0;
  private to = 0;
  private spool: Spool | undefined;
  private ended = false;
  lastReadAt = 0;
  /** The declared length of the whole form. */
  private readonly declared: number | undefined;
  private bodyEnd = 0;
  /** The end of the last part, known once the form has ended. */
  private lastPartEnd = 0;
  private account: BufferAccount | undefined;
  private spoolAccount: BufferAccount | undefined;

  /** @param addedField the head of the field that is added where the form has none */
  constructor(
    private readonly pieces: BodyPieces,
    private readonly scanner: FormScanner,
    private readonly maxBytes: number,
    declared: string | undefined,
    private readonly options: Pick<FormReaderOptions, "openAccount" | "openSpoolAccount" | "bytesInChecks">,
    private readonly addedField: string | undefined,
  ) {
    this.declared = declared === undefined ? undefined : Number(declared);
  }

  /**
   * Reads the bytes around the field `model`. A small form that has fully arrived is read to its end, so that it can be sent
   * again.
   */
  async readToModel(): Promise<Body> {
    const { scanner } = this;
    // The last chunk arrives slightly before node sets `complete`.
    const hasArrived = () => this.pieces.complete || this.to === this.declared;
    while (!this.ended && (!scanner.found || (hasArrived() && this.to - this.from < MEMORY_LIMIT))) {
      await this.readNext();
      if (!scanner.found && this.to - this.from > MEMORY_LIMIT) await this.spill();
    }
    this.account?.protect();
    this.spoolAccount?.protect();
    const base = this.from;
    const bytes = this.takeChecked();
    this.bodyEnd = this.from;
    const { found } = scanner;
    if (found) return new Body(bytes, undefined, { start: found.start - base, end: found.end - base });
    const at = this.lastPartEnd - base;
    const added = Buffer.from(this.addedField ?? "");
    const field = { start: at + added.length, end: at + added.length };
    return new Body(splice(bytes, [{ start: at, end: at, bytes: added }]), undefined, field);
  }

  get fields(): ReadonlyMap<string, string> {
    return this.scanner.texts;
  }

  get files(): number {
    return this.scanner.files;
  }

  get replayable(): boolean {
    return this.ended;
  }

  withBody(body: readonly Buffer[]): readonly Buffer[] | AsyncIterable<Buffer> {
    return this.ended && !this.spool ? body : this.streamAround(body);
  }

  lengthWithBody(body: number): number | undefined {
    const before = this.spool?.length ?? 0;
    if (this.ended) return before + body;
    return this.declared === undefined ? undefined : before + body + this.declared - this.bodyEnd;
  }

  close(): void {
    this.pieces.close();
    this.account?.close();
    this.spool?.close();
    this.spoolAccount?.close();
  }

  private async *streamAround(body: readonly Buffer[]): AsyncGenerator<Buffer> {
    if (this.spool) yield* this.spool.read();
    yield* body;
    while (!this.ended) {
      await this.readNext();
      const judged = this.takeChecked();
      // The end of the previous piece comes with this one: joined, as each is a write to the provider.
      if (judged.length > 0) yield joinPieces(judged);
    }
  }

  /** Takes the next piece, or the end. */
  private async readNext(): Promise<void> {
    const { scanner } = this;
    const piece = await this.pieces.next();
    this.lastReadAt = performance.now();
    this.to += piece?.length ?? 0;
    const searching = !scanner.found;
    try {
      if (piece) {
        this.buffered.push(piece);
        scanner.push(piece);
      } else {
        this.lastPartEnd = scanner.checkedUntil;
        scanner.end();
      }
    } catch (error) {
      throw error instanceof FormError ? invalidFormError(error) : GatewayError.from(error);
    }
    this.countMemory();
    if (searching && (scanner.found?.start ?? this.to) > this.maxBytes)
      throw bodyTooLarge(this.maxBytes, "part in front of the field model of the ", MODEL_FIRST);
    if (piece) return;
    this.ended = true;
    if (!scanner.found && (this.addedField === undefined || this.lastPartEnd === 0))
      throw new GatewayError("invalid_field", { message: 'The form has no field "model".', param: "model" });
  }

  /** @throws GatewayError where there is no room for what is kept */
  private countMemory(): void {
    const bytes = this.to - this.from + (this.options.bytesInChecks?.() ?? 0);
    if (bytes <= UNCOUNTED_BYTES && !this.account) return;
    this.account ??= this.options.openAccount(this.maxBytes, (error) => this.pieces.abort(error));
    const exceeded = this.account.set(bytes);
    if (exceeded !== undefined) throw noRoomError(exceeded);
  }

  /** @throws GatewayError where there is no room for what is kept in the file */
  private async spill(): Promise<void> {
    const pieces = this.takeChecked();
    this.spoolAccount ??= this.options.openSpoolAccount(this.maxBytes, (error) => this.pieces.abort(error));
    const exceeded = this.spoolAccount.set(this.from);
    if (exceeded !== undefined) throw noRoomError(exceeded, MODEL_FIRST);
    try {
      this.spool ??= await Spool.open();
      await this.spool.write(pieces);
    } catch (cause) {
      throw spoolError(cause);
    }
  }

  /** Removes and returns the checked bytes. */
  private takeChecked(): Buffer[] {
    const taken: Buffer[] = [];
    while (this.from < this.scanner.checkedUntil) {
      const piece = this.buffered.shift() as Buffer;
      const bytes = this.scanner.checkedUntil - this.from;
      taken.push(piece.subarray(0, bytes));
      if (bytes < piece.length) this.buffered.unshift(piece.subarray(bytes));
      this.from += Math.min(bytes, piece.length);
    }
    return taken;
  }
}

/** Returns the error for a form that its file did not take. */
function spoolError(cause: unknown): GatewayError {
  const isFull = FULL.has(String((cause as NodeJS.ErrnoException).code));
  return new GatewayError(isFull ? "overloaded" : "internal", {
    status: 503,
    message: "There is no room to keep the form until its model is known.",
    hint: MODEL_FIRST,
    cause,
    ...(isFull && { retryAfter: randomRetryAfter() }),
  });
}
