import type { IncomingMessage } from "node:http";
import { GatewayError } from "../core/errors.ts";
import { Pace, type PaceLimits, type PaceListener } from "../core/pace.ts";
import { Incoming } from "./incoming.ts";

/** A request's body piece by piece, read no faster than somebody asks for it. */
export class BodyPieces implements PaceListener {
  private readonly pace: Pace;
  private fail: ((error: GatewayError) => void) | undefined;
  /** Pieces that were told. */
  private told = 0;

  constructor(
    private readonly request: IncomingMessage,
    limits: PaceLimits,
  ) {
    this.pace = new Pace(limits, this);
    this.pace.pause();
  }

  /** All of it has come, though it may not all have been read. */
  get complete(): boolean {
    return this.request.complete;
  }

  /** The next piece; undefined at the end. In between the request is paused. @throws GatewayError `body_timeout`, `client_gone` */
  next(): Promise<Buffer | undefined> {
    const { request, pace } = this;
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        this.fail = undefined;
        pace.pause();
        request.off("data", onData).off("end", onEnd).off("close", onClose).pause();
      };
      const onData = (piece: Buffer): void => {
        settle();
        // What else is here already comes with it: a turn for each piece would cost more than the piece.
        const parts = [piece];
        for (let more = request.read(); more !== null; more = request.read()) parts.push(more as Buffer);
        const all = parts.length === 1 ? piece : Buffer.concat(parts);
        const { told } = this;
        this.told = request instanceof Incoming ? request.pieces : told + 1;
        let refused: GatewayError | undefined;
        this.fail = (error) => (refused = error);
        pace.came(all.length, this.told - told);
        this.fail = undefined;
        if (refused) reject(refused);
        else resolve(all);
      };
      const onEnd = (): void => {
        settle();
        resolve(undefined);
      };
      this.fail = (error) => {
        settle();
        reject(error);
      };
      const onClose = () => this.fail?.(new GatewayError("client_gone"));
      if (request.readableEnded) onEnd();
      // A client that left before has had its close event.
      else if (request.destroyed) onClose();
      else {
        pace.resume();
        request.on("data", onData).once("end", onEnd).once("close", onClose).resume();
      }
    });
  }

  late(error: GatewayError): void {
    this.fail?.(error);
  }

  /** No more is asked for. */
  close(): void {
    this.pace.stop();
  }
}
