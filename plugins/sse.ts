import {
  type DoneExchange,
  type Frame,
  GatewayError,
  type Head,
  Options,
  type Plugin,
  type ResponseExchange,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Maximum characters of a provider's error in the log. */
const MAX_LOGGED = 500;

/** Returns the error for a provider's error in a stream, which the client receives unchanged. */
const reportedError = ({ text }: Frame): GatewayError =>
  new GatewayError("upstream_refused", {
    message: "The provider reported an error in its stream.",
    cause: text?.slice(0, MAX_LOGGED),
  });

/** Attributes an error to the stream's source: the provider, or a plugin that responds itself. */
function attributeError({ answerer }: ResponseExchange, error: GatewayError): GatewayError {
  if (!answerer) return error;
  const own = new GatewayError("plugin_failed", { cause: error.cause ?? "The stream has no terminal event." });
  own.origin = answerer.origin;
  return own;
}

/** Returns the error for a stream without its terminal event, which its source has not sent, or a plugin has removed. */
function truncatedError(exchange: ResponseExchange, { endingLostBy }: Head): GatewayError {
  if (endingLostBy === undefined) return attributeError(exchange, new GatewayError("upstream_truncated"));
  const error = new GatewayError("plugin_failed", { cause: "A stage has lost the event that ends the stream." });
  error.origin = endingLostBy;
  return error;
}

/**
 * Guards streams: sends keep-alive frames while the model thinks, and enforces each protocol's terminal event. A stream that
 * ends without its terminal event is aborted with an error, never passed on as complete. One in which the provider reports an
 * error passes, is recorded as a failure, and does not end as a complete one.
 */
@injectable()
export default class Sse implements Plugin {
  static options = z.strictObject({
    ping: z
      .number()
      .int()
      .min(1)
      .default(15)
      .describe("Seconds without a frame after which a stream gets a keep-alive frame."),
  });

  /** The timer of the next keep-alive frame. */
  private readonly pingTimer = slot((): { timer?: NodeJS.Timeout } => ({}));

  constructor(@inject(Options) private readonly options: z.infer<typeof Sse.options>) {}

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    return !head.framing || head.status >= 300 ? undefined : this.guardStream(exchange, head);
  }

  private guardStream(exchange: ResponseExchange, head: Head): Stage {
    const { protocol } = exchange;
    const ping = head.framing === "sse" ? protocol.ping : undefined;
    const timer = ping && setTimeout(() => this.sendPing(exchange, ping), this.options.ping * 1000);
    if (timer) this.pingTimer(exchange).timer = timer;
    let ending: "complete" | "error" | undefined;
    return (frame) => {
      timer?.refresh();
      if (frame.kind === "end") {
        if (!ending) throw truncatedError(exchange, head);
      } else if (ending !== "error") {
        ending = protocol.ending(frame) ?? ending;
        if (ending === "error") exchange.error = attributeError(exchange, reportedError(frame));
      }
    };
  }

  done(exchange: DoneExchange): void {
    clearTimeout(this.pingTimer.existing(exchange)?.timer);
  }

  private sendPing(exchange: ResponseExchange, ping: Buffer): void {
    if (exchange.push(ping)) this.pingTimer(exchange).timer?.refresh();
  }
}
