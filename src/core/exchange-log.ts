import type { GatewayError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { Log } from "./log.ts";

/** Entries of a list in a log line. */
const LOGGED = 20;

/**
 * One log line for each exchange, however it ended; a warning when the fault was not the client's.
 * @param failed what a plugin's `done` threw
 */
export function logExchange(exchange: Exchange, log: Log, failed: GatewayError | undefined): void {
  const { error, caller, model, attempts, usage, answerer } = exchange;
  const last = attempts.at(-1);
  const fields = {
    id: exchange.id,
    key: caller?.id,
    method: exchange.method,
    path: exchange.path,
    model: model?.id ?? exchange.requestedModel,
    target: last && `${last.target.provider.name}:${last.target.model}`,
    answered_by: answerer?.name,
    via: last && last.protocol !== exchange.protocol ? last.protocol.name : undefined,
    attempts: attempts.length,
    upstream_id: last?.requestId,
    status: exchange.status,
    outcome: exchange.outcome,
    tokens_in: usage?.in.total,
    tokens_out: usage?.out.total,
    first_byte_ms: exchange.firstByte === undefined ? undefined : Math.round(exchange.firstByte),
    ms: Math.round(exchange.elapsed),
    bytes: exchange.written,
    bytes_up: exchange.received,
    close: exchange.closeCode,
    dropped: exchange.dropped.length > 0 ? exchange.dropped.slice(0, LOGGED) : undefined,
    unsaid: exchange.droppedFromAnswer.length > 0 ? exchange.droppedFromAnswer : undefined,
    error: error && { code: error.code, message: error.message, origin: error.origin, cause: causeOf(error) },
  };
  if (failed)
    log.error(
      { id: exchange.id, origin: failed.origin, cause: causeOf(failed) ?? failed.message },
      "a plugin failed to record",
    );
  if (error && error.status >= 500) log.warn(fields, "exchange");
  else log.info(fields, "exchange");
}

/** What lies under an error, for the log only: the client never sees it. */
function causeOf(error: GatewayError): string | undefined {
  const { cause } = error;
  if (cause === undefined) return undefined;
  return cause instanceof Error ? (cause.stack ?? cause.message) : String(cause);
}
