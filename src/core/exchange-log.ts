import { type GatewayError, thrownMessage, thrownStack } from "./errors.ts";
import type { Exchange } from "./exchange.ts";
import type { Log } from "./log.ts";
import { Marketplace } from "./marketplace.ts";
import type { Redactor } from "./redactor.ts";
import { takeRefusalLine } from "./refusal-lines.ts";
import { shorten } from "./shorten.ts";

/** Fields of an exchange's line that gateway.yaml may add. */
export const LOG_FIELDS = ["owner", "group", "tags", "operation", "cost_usd", "user_agent"] as const;

export type LogField = (typeof LOG_FIELDS)[number];

/** Number of responses since the start whose usage could not be read. */
let unreadUsages = 0;

/** Maximum entries of a list in a log line. */
const MAX_LISTED = 20;
/** Maximum characters of a cause: a stack, and what a provider said. */
const MAX_CAUSE_LENGTH = 4000;
/** Maximum characters of a text in an added field. */
const MAX_ADDED_LENGTH = 200;

/** The parts of the gateway that a line is written with. */
export interface ExchangeLogParts {
  readonly log: Log;
  readonly redactor: Redactor;
  /** Replaces the secrets among plugins' options in what a plugin has thrown. */
  maskOptions(text: string): string;
  /** The fields to add. */
  readonly logFields: readonly LogField[];
}

/**
 * Writes one log line for each exchange, however it ended, except in a flood of wrong keys; a warning when the fault was not the
 * client's.
 * @param failed what a plugin's `done` threw
 */
export function logExchange(exchange: Exchange, parts: ExchangeLogParts, failed: GatewayError | undefined): void {
  const { log, redactor, logFields } = parts;
  const { error, caller, model, attempts, answerer, charge } = exchange;
  if (error?.isUnkeyed && !takeRefusalLine(log)) return;
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
    dropped_from_response:
      exchange.droppedFromResponse.length > 0 ? exchange.droppedFromResponse.map(clean) : undefined,
    // `refusal` is a provider's own error that passed unchanged; no decision depends on it.
    error: error ? errorFields(error, parts) : last?.refusal,
  };
  if (exchange.usageError !== undefined)
    log.warn(
      { id: exchange.id, cause: exchange.usageError, count: ++unreadUsages },
      "the usage of an answer could not be read",
    );
  const logFailure = (thrown: GatewayError, text: string): void => {
    const { origin, cause, message } = errorFields(thrown, parts);
    log.error({ id: exchange.id, origin, cause: cause ?? message }, text);
  };
  for (const thrown of exchange.failedErrors) logFailure(thrown, "a plugin failed to observe a failed attempt");
  if (failed) logFailure(failed, "a plugin failed to record");
  const all = logFields.length === 0 ? fields : { ...fields, ...addedFields(exchange, logFields, clean) };
  if (error && error.status >= 500) log.warn(all, "exchange");
  else log.info(all, "exchange");
}

function addedFields(
  { caller, operation, charge, headers }: Exchange,
  names: readonly LogField[],
  clean: (text: string) => string,
): Partial<Record<LogField, unknown>> {
  const short = (text: string | undefined) => (text === undefined ? undefined : shorten(clean(text), MAX_ADDED_LENGTH));
  const values: Record<LogField, () => unknown> = {
    owner: () => short(caller?.owner),
    group: () => short(caller?.group),
    tags: () =>
      caller?.tags &&
      Object.fromEntries(
        Object.entries(caller.tags)
          .slice(0, MAX_LISTED)
          .map(([name, value]) => [short(name), short(value)]),
      ),
    operation: () => operation.name,
    cost_usd: () => (charge?.priced === undefined ? undefined : charge.priced / 1e9),
    user_agent: () => short(headers.get("user-agent")),
  };
  return Object.fromEntries(names.map((name) => [name, values[name]()]));
}

/** Returns an error for the log, without secrets: it may contain a provider's text, or what a plugin could not send. */
function errorFields(error: GatewayError, { redactor, maskOptions }: ExchangeLogParts) {
  const { code, message, origin } = error;
  const clean = (text: string) => redactor.text(origin === undefined ? text : maskOptions(text));
  const cause = causeOf(error);
  return { code, message: clean(message), origin, cause: cause && clean(cause) };
}

/** Returns the cause of an error, for the log only: it is never sent to the client. A client's mistake needs no stack. */
function causeOf({ cause, status }: GatewayError): string | undefined {
  if (cause === undefined) return undefined;
  return shorten(status < 500 ? thrownMessage(cause) : thrownStack(cause), MAX_CAUSE_LENGTH);
}
