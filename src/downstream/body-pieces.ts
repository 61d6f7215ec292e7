import type { IncomingMessage } from "node:http";
import { type BodyRateLimits, type BodyRateListener, BodyRateMonitor } from "../core/body-rate.ts";
import { GatewayError } from "../core/errors.ts";
import { joinPieces } from "../wire/pieces.ts";
import { ServerRequest } from "./server-request.ts";

/** Bytes that are worth an event loop turn of their own. */
const LARGE_PIECE = 32 * 1024;

/** A request's body in pieces, read only on demand. */
export class BodyPieces implements BodyRateListener {
  private readonly pace: BodyRateMonitor;
  private fail: ((error: GatewayError) => void) | undefined;
  private aborted: GatewayError | undefined;
  /** Chunks already counted. */
  private countedChunks = 0;

  constructor(
    private readonly request: IncomingMessage,
    limits: BodyRateLimits,
  ) {
    this.pace = new BodyRateMonitor(limits, this);
    this.pace.pause();
  }

  /** Whether the whole body has been received, although it may not all have been read. */
  get complete(): boolean {
    return this.request.complete;
  }

  /**
   * Returns the available bytes, joined; undefined at the end. Between calls no more is read than a stream buffers.
   * @throws GatewayError `body_timeout`, `client_gone`, or that of `abort`
   */
  next(): Promise<Buffer | undefined> {
    const { request, pace } = this;
    return new Promise((resolve, reject) => {
      let soon: NodeJS.Immediate | undefined;
      const settle = (): void => {
        this.fail = undefined;
        clearImmediate(soon);
        pace.pause();
        request.off("readable", onReadable).off("end", onEnd).off("close", onClose);
      };
      const take = (): void => {
        soon = undefined;
        const parts: Buffer[] = [];
        for (let more = request.read(); more !== null; more = request.read()) parts.push(more as Buffer);
        if (parts.length === 0) return;
        settle();
        const bytes = joinPieces(parts);
        const refused = this.checkPace(bytes.length);
        if (refused) reject(refused);
        else resolve(bytes);
      };
      // node emits `readable` for each chunk before it parses the next one from the same socket read.
      const onReadable = (): void => {
        if (request.readableLength >= LARGE_PIECE || request.complete) take();
        else soon ??= setImmediate(take);
      };
      const onEnd = (): void => {
        settle();
        resolve(undefined);
      };
      const fail = (error: GatewayError) => {
        settle();
        reject(error);
      };
      this.fail = fail;
      const onClose = () => this.fail?.(new GatewayError("client_gone"));
      if (this.aborted) fail(this.aborted);
      else if (request.readableEnded) onEnd();
      // The `close` event of a client that left earlier has already been emitted.
      else if (request.destroyed) onClose();
      else {
        pace.resume();
        request.on("readable", onReadable).once("end", onEnd).once("close", onClose);
        if (request.readableLength > 0) onReadable();
      }
    });
  }

  /** Counts what was read; returns an error if it arrived too slowly or in too many chunks. */
  private checkPace(bytes: number): GatewayError | undefined {
    const { request, countedChunks: before } = this;
    this.countedChunks = request instanceof ServerRequest ? request.pieces : before + 1;
    let refused: GatewayError | undefined;
    const fail = (error: GatewayError) => (refused = error);
    this.fail = fail;
    this.pace.addBytes(bytes, this.countedChunks - before);
    this.fail = undefined;
    return refused;
  }

  onTooSlow(error: GatewayError): void {
    this.fail?.(error);
  }

  /** Fails the pending read and those that follow. */
  abort(error: GatewayError): void {
    this.aborted = error;
    this.fail?.(error);
  }

  /** Ends reading. */
  close(): void {
    this.pace.stop();
  }
}
