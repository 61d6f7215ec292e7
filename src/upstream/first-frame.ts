import type { Attempt } from "../core/attempt.ts";
import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/head.ts";
import type { MaybePromise } from "../core/plugin.ts";
import { toClientError } from "../translation/client-error.ts";
import { translationOf } from "../translation/codec.ts";
import type { Event } from "../translation/events.ts";
import { ArraySplitter } from "../wire/array.ts";
import { Frame } from "../wire/frame.ts";
import { SseSplitter } from "../wire/sse.ts";
import { peekResponse } from "./peek-response.ts";
import type { UpstreamResponse } from "./response.ts";

/** Maximum bytes of a first frame that is waited for. An error is short. */
const MAX_FIRST_FRAME = 32 * 1024;

/** The name of events that only keep a connection open: an error may follow them. */
const KEEP_ALIVE = "ping";

/**
 * Returns the first frame of a stream that is no comment and no ping, consuming nothing; `none` where the stream ended without one; undefined
 * where none came within `limit` milliseconds, or the stream broke off.
 * @param isError reports whether a frame is an error, which some providers send as bare JSON, and with nothing behind it
 */
export function peekFirstFrame(
  response: UpstreamResponse,
  framing: NonNullable<Head["framing"]>,
  limit: number,
  isError: (frame: Frame) => boolean,
): MaybePromise<Frame | "none" | undefined> {
  const splitter = framing === "sse" ? new SseSplitter(MAX_FIRST_FRAME) : new ArraySplitter(MAX_FIRST_FRAME);
  let consumed = 0;
  return peekResponse<Frame | "none">(response, limit, (settle, pieces, last, isComplete) => {
    const frame =
      nextFrame(splitter, pieces.slice(consumed), isError) ?? (last ? lastError(splitter, isError) : undefined);
    consumed = pieces.length;
    if (frame === undefined) return last && settle(isComplete ? "none" : undefined);
    return settle(frame === "unreadable" ? undefined : frame);
  });
}

/** Returns the first frame with text or an error; `unreadable` when none can follow within the limits. */
function nextFrame(
  splitter: SseSplitter | ArraySplitter,
  pieces: readonly Buffer[],
  isError: (frame: Frame) => boolean,
): Frame | "unreadable" | undefined {
  try {
    for (const piece of pieces)
      for (const frame of splitter.push(piece)) {
        const isKeepAlive = frame.text === undefined || frame.event === KEEP_ALIVE;
        if (!isKeepAlive || isError(frame)) return frame;
      }
    return undefined;
  } catch {
    return "unreadable";
  }
}

/** Returns the error with which a stream has ended or broken off, if it is whole. */
function lastError(splitter: SseSplitter | ArraySplitter, isError: (frame: Frame) => boolean): Frame | undefined {
  const rest = splitter.end();
  const frame = rest && new Frame(splitter instanceof SseSplitter ? "event" : "element", rest);
  return frame && isError(frame) ? frame : undefined;
}

/**
 * Returns the error that a provider reports in the first frame of its stream, or in its whole response; undefined: it is none.
 * @param overloadedStatus the status that the client's protocol has for an overloaded service
 */
export function errorInFrame(
  frame: Frame,
  { protocol, target }: Attempt,
  overloadedStatus?: number,
): GatewayError | undefined {
  if (protocol.ending(frame) !== "error") return undefined;
  const events: Event[] = [];
  const source = { account: target.provider.name, model: target.model };
  try {
    translationOf(protocol)?.response.decoder(source).frame(frame, events);
  } catch {
    // An unreadable error is still an error.
  }
  const errorEvent = events.find((event) => event.type === "error");
  if (errorEvent) return toClientError(errorEvent.fault, undefined, overloadedStatus);
  return new GatewayError("upstream_refused", { message: "The provider reported an error in its answer." });
}
