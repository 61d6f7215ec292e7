import type { Attempt } from "../core/attempt.ts";
import type { BufferAccount, BufferLimits, BufferMemory } from "../core/buffer-memory.ts";
import type { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Head } from "../core/head.ts";
import type { Redactor } from "../core/redactor.ts";
import type { Frame } from "../wire/frame.ts";
import { BufferedResponse, type Delivery } from "./buffered-response.ts";
import { errorInFrame } from "./first-frame.ts";
import { redactFrame } from "./frame-errors.ts";
import type { Health } from "./health.ts";
import type { UpstreamResponse } from "./response.ts";

/** The response of an attempt, whose head has been read and whose body has not. */
export interface UpstreamAnswer {
  head: Head;
  read: UpstreamResponse["read"];
  resume(): void;
  destroy(): void;
  /** Ends the count of what is buffered of it once it has been delivered. Called after its end. */
  release?(delivery: Delivery): void;
  /** Reports whether a frame is the terminal event of the provider's protocol. */
  terminal?(frame: Frame): boolean;
  /** Notes the frame with which the provider reports an error. */
  noteError?(frame: Frame): void;
  /** Records for the target's health how it has ended. Called once, when the exchange has ended. */
  recordEnd?(exchange: Exchange): void;
  /** Returns a frame of the provider without the secrets in its comments, or in all of it if it is an error; else unchanged. */
  redact?(frame: Frame): Frame;
}

/** Counts what is buffered of answers. */
export interface AnswerBuffers {
  readonly memory: BufferMemory;
  readonly limits: BufferLimits;
}

interface AnswerContext {
  readonly exchange: Exchange;
  readonly attempt: Attempt;
  readonly health: Health;
  readonly redactor: Redactor;
  readonly answers: AnswerBuffers | undefined;
}

/**
 * A provider's answer that is no error. Its methods are no closures in its fields: V8 keeps what these refer to until it marks the
 * whole heap.
 */
export class ReceivedAnswer extends BufferedResponse implements UpstreamAnswer {
  /** The error that the provider has reported in its stream. */
  private reported: GatewayError | undefined;

  /** @param of the attempt that it answers, and who is told of it */
  constructor(
    upstream: UpstreamResponse,
    head: Pick<Head, "status" | "headers" | "framing" | "maxFrame">,
    private readonly of: AnswerContext,
  ) {
    super(upstream, head);
  }

  protected override openMemory(): BufferAccount | undefined {
    const { exchange, answers } = this.of;
    return answers?.memory.account(exchange.caller?.id ?? exchange.network, answers.limits);
  }

  redact(frame: Frame): Frame {
    const { attempt, redactor } = this.of;
    return redactFrame(frame, attempt.protocol, redactor);
  }

  terminal(frame: Frame): boolean {
    return this.head.framing !== undefined && this.of.attempt.protocol.terminal?.(frame) === true;
  }

  noteError(frame: Frame): void {
    this.reported = errorInFrame(frame, this.of.attempt);
  }

  recordEnd(exchange: Exchange): void {
    this.of.health.recordEnd(this.of.attempt, endOf(exchange, this.reported));
  }
}

/** Reports whether an error after a successful head is the provider's fault, and not the request's or the model's. */
export const isProviderFault = ({ code, status }: GatewayError): boolean =>
  code.startsWith("upstream_") && code !== "upstream_model_failed" && status >= 500;

/**
 * Returns how an answer has ended.
 * @param reported the error that the provider reported in its stream, of which the exchange's own tells no status
 */
function endOf({ error, aborted }: Exchange, reported: GatewayError | undefined): Parameters<Health["recordEnd"]>[1] {
  if (!error) return aborted ? "unfinished" : "whole";
  return isProviderFault(error) && isProviderFault(reported ?? error) ? "broken" : "unfinished";
}
