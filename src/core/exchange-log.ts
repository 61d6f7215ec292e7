import type { GatewayError } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { Log } from "./log.ts";
import { Marketplace } from "./marketplace.ts";
import type { Redactor } from "./redactor.ts";
import { shorten } from "./shorten.ts";

/** Number of responses since the start whose usage could not be read. */
let unreadUsages = 0;

/** Maximum entries of a list in a log line. */
const MAX_LISTED = 20;
/** Maximum characters of a cause: a stack, and what a provider said. */
const MAX_CAUSE_LENGTH = 4000;

/**
 * Writes one log line for each exchange, however it ended; a warning when the fault was not the client's.
 * @param failed what a plugin's `done` threw
 */
export function logExchange(
  exchange: Exchange,
  { log, redactor }: { log: Log; redactor: Redactor },
  failed: GatewayError | undefined,
): void {
  const { error, caller, model, attempts, answerer, charge } = exchange;
  // As recorded in the ledger: estimated, where the provider reported none.
  const usage = charge?.usage ?? exchange.usage;
  const last = attempts.at(-1);
  // Clients have sent keys in place of a model, a path or a member.
  const clean = (text: string) => redactor.text(text, exchange.credentials);
  const requestedModel = exchange.requestedModel;
  const fields = {
    id: exchange.id,
    trace_id: exchange.traceId ?? exchange.trace?.traceId,
    address: exchange.address === "" ? undefined : exchange.address,
    key: caller?.id,
    method: exchange.method,
    path: model ? exchange.path : redactor.path(exchange.path, exchange.credentials),
    model: last?.target.modelId ?? model?.id ?? (requestedModel === undefined ? undefined : clean(requestedModel)),
    asked: model && last?.target.modelId !== undefined && last.target.modelId !== model.id ? model.id : undefined,
    target: last && Marketplace.nameOf(last.target),
    credential: last && last.target.provider.credentials.length > 1 ? last.credential?.label : undefined,
    answered_by: answerer?.name,
    via: last && last.protocol !== exchange.protocol ? last.protocol.name : undefined,
    attempts: exchange.providerRequests,
    upstream_id: last?.requestId,
    status: exchange.status,
    outcome: exchange.outcome,
    dry_run: exchange.dryRun ? true : undefined,
    tokens_in: usage?.in.total,
    tokens_out: usage?.out.total,
    estimated: charge?.estimated ? true : undefined,
    first_byte_ms: exchange.firstByte === undefined ? undefined : Math.round(exchange.firstByte),
    ms: Math.round(exchange.elapsed),
    bytes: exchange.written,
    bytes_up: exchange.received,
    close: exchange.closeCode,
    dropped: exchange.dropped.length > 0 ? exchange.dropped.slice(0, MAX_LISTED).map(clean) : undefined,
    unsaid: exchange.droppedFromResponse.length > 0 ? exchange.droppedFromResponse.map(clean) : undefined,
    // `refusal` is a provider's own error that passed unchanged; no decision depends on it.
    error: error ? errorFields(error, redactor) : last?.refusal,
  };
  if (exchange.usageError !== undefined)
    log.warn(
      { id: exchange.id, cause: exchange.usageError, count: ++unreadUsages },
      "the usage of an answer could not be read",
    );
  const logFailure = (thrown: GatewayError, message: string): void =>
    log.error(
      { id: exchange.id, origin: thrown.origin, cause: redactor.text(causeOf(thrown) ?? thrown.message) },
      message,
    );
  for (const thrown of exchange.failedErrors) logFailure(thrown, "a plugin failed to observe a failed attempt");
  if (failed) logFailure(failed, "a plugin failed to record");
  if (error && error.status >= 500) log.warn(fields, "exchange");
  else log.info(fields, "exchange");
}

/** Returns an error for the log, without secrets: it may contain a provider's text, or what a plugin could not send. */
function errorFields(error: GatewayError, redactor: Redactor) {
  const { code, message, origin } = error;
  const cause = causeOf(error);
  return { code, message: redactor.text(message), origin, cause: cause && redactor.text(cause) };
}

/** Returns the cause of an error, for the log only: it is never sent to the client. */
function causeOf(error: GatewayError): string | undefined {
  const { cause } = error;
  if (cause === undefined) return undefined;
  return shorten(cause instanceof Error ? (cause.stack ?? cause.message) : String(cause), MAX_CAUSE_LENGTH);
}
