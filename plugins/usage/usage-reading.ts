import type { DoneExchange, Frame, ResponseExchange, Stage } from "model-gateway";
import { JsonUsage } from "model-gateway/store";
import { DeliveredTokens } from "./delivered-tokens.ts";
import { hasTokens } from "./price.ts";
import { reportedTier } from "./tier.ts";

/** What an estimate needs of a request as it was sent to a provider. */
export interface RequestFigures {
  readonly bytes: number;
  /** About how many tokens it has. */
  readonly tokens: number | undefined;
  /** Its service tier, where that is more expensive. */
  readonly tier: string | undefined;
  /** The most output tokens that it allows. */
  readonly output: number | undefined;
  /** How hard its model shall reason; undefined: as usual for the model. */
  readonly effort: string | undefined;
}

/** What is known of a response besides the usage that its provider reports. */
export interface UsageReading {
  /** Whether the ledger has an entry for the running exchange. */
  started?: true;
  /** What an estimate needs of a request whose body is let go. */
  asked?: RequestFigures;
  delivered?: DeliveredTokens;
  /** The response's id, where its usage may be reported again. */
  lateId?: string | undefined;
  /** Whether its provider has said that it is made in the background. */
  background?: true;
  /** Whether it arrived completely, even if no client received it. */
  complete?: true;
  /** The parser of a whole response. */
  parser?: JsonUsage;
  /** The last two frames: they are inspected only when the client leaves, to see whether the stream had ended. */
  lastFrame?: Frame | undefined;
  previousFrame?: Frame | undefined;
  /** The service tier in one of the first frames. */
  tier?: string | undefined;
  /** Number of frames searched for it. */
  frames?: number;
  /** Whether a streamed image has begun. */
  hasImage?: true;
  /** When the ledger gets its next interim entry, in milliseconds since the exchange began. */
  nextInterim?: number;
}

/** Returns the protocol of the frames: that of the responding provider. */
export const responseProtocol = ({ attempt, protocol }: Pick<ResponseExchange, "attempt" | "protocol">) =>
  attempt?.protocol ?? protocol;

/** Reads a frame; undefined where it is not JSON, which was logged when it arrived. */
export function tryRead<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

const QUOTE = 0x22;

/** Number of first frames searched for the tier: each frame with a tier would be parsed otherwise. */
const TIER_FRAMES = 3;
/** Frames of a text between two calls of `onFrames`: a power of two. */
const INTERIM_FRAMES = 16;

/**
 * Parses only frames with usage, and the first ones for the tier. Parse errors are logged, and the client's stream continues.
 */
export function streamStage(
  exchange: ResponseExchange | DoneExchange,
  reading: UsageReading,
  onFrames: () => void,
): Stage {
  const protocol = responseProtocol(exchange);
  const { generates, task } = exchange.operation;
  const isText = generates && task === "generate";
  const delivered = generates ? new DeliveredTokens(protocol, exchange.attempt?.target.model, exchange) : undefined;
  const marks = protocol.images?.contentMembers;
  if (delivered) {
    reading.delivered = delivered;
    exchange.progress = delivered;
  }
  const see = (frame: Frame): void => {
    if (exchange.aborted && protocol.ending(frame) === "complete") reading.complete = true;
    reading.previousFrame = reading.lastFrame;
    reading.lastFrame = frame;
    delivered?.observe(frame);
    reading.frames = (reading.frames ?? 0) + 1;
    if (generates && reading.frames <= TIER_FRAMES) {
      reading.tier ??= tryRead(() => reportedTier(frame, protocol));
      if (tryRead(() => protocol.storedResponses?.background.id(frame.json())) !== undefined) reading.background = true;
    }
    if (marks?.some((mark) => frame.mayContain(mark, QUOTE))) reading.hasImage = true;
    if (!protocol.holdsUsage(frame)) return;
    const json = frame.json();
    const late = protocol.storedResponses?.background.id(json);
    if (!generates && late === undefined) return;
    const usage = protocol.usage(json, exchange.usage);
    if (!usage) return;
    exchange.usage = usage;
    reading.lateId = late;
  };
  return (frame) => {
    try {
      see(frame);
      if (isText && (reading.frames ?? 0) % INTERIM_FRAMES === 0) onFrames();
    } catch (thrown) {
      exchange.usageError ??= JsonUsage.loggableError(thrown);
    }
  };
}

/** Parses a whole response for its usage while it passes. */
export function wholeStage(exchange: ResponseExchange | DoneExchange, reading: UsageReading): Stage {
  const usage = new JsonUsage([responseProtocol(exchange)]);
  reading.parser = usage;
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    reading.complete = true;
    const found = usage.end();
    exchange.usageError = usage.fault;
    // A stored response has reported its usage when it was generated, unless it was generated later.
    if (!exchange.operation.generates && usage.late === undefined) return;
    exchange.usage = found;
    reading.lateId = usage.late;
  };
}

/** Reads usage from an error, which has it only where its provider has worked on the request, and bills that. */
export function errorStage(exchange: ResponseExchange): Stage {
  const usage = new JsonUsage([responseProtocol(exchange)]);
  return ({ kind, bytes }) => {
    if (kind !== "end") {
      usage.push(bytes);
      return;
    }
    const found = usage.end();
    if (found && hasTokens(found)) exchange.usage = found;
  };
}

/** Reads what arrived of a response that broke off while a plugin after this one was reading it. */
export function readUnseen(exchange: DoneExchange, reading: UsageReading): void {
  const { head, operation } = exchange;
  if (!head?.received || head.status >= 300 || !operation.generates || reading.parser || reading.delivered) return;
  const stage = head.framing ? streamStage(exchange, reading, () => {}) : wholeStage(exchange, reading);
  for (const frame of tryRead(head.received) ?? []) stage(frame);
}
