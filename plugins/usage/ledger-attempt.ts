import { type Attempt, type DoneExchange, Marketplace, type Redactor } from "model-gateway";
import type { LedgerEntry } from "model-gateway/store";
import { attemptError, redactedMessage } from "./reasons.ts";

/** Returns an attempt's ledger record. */
export function ledgerAttempt(
  attempt: Attempt,
  exchange: DoneExchange,
  redactor: Redactor,
): LedgerEntry["attempts"][number] {
  const one: LedgerEntry["attempts"][number] = {
    target: Marketplace.nameOf(attempt.target),
    startedAt: Math.round(attempt.startedAt),
  };
  if (attempt.status !== undefined) one.status = attempt.status;
  const fault = attemptError(attempt, exchange);
  if (fault) Object.assign(one, { error: fault.code, message: redactedMessage(fault, redactor) });
  const { credential, target, startedAt, queuedAt, connectedAt, dispatchedAt = 0, respondedAt } = attempt;
  // Omitted values mean less than a millisecond, and for an ordinary attempt the entry's own.
  if (queuedAt !== undefined && startedAt - queuedAt >= 1) one.queue = Math.round(startedAt - queuedAt);
  if (connectedAt !== undefined && connectedAt - dispatchedAt >= 1)
    one.connect = Math.round(connectedAt - dispatchedAt);
  if (attempt !== exchange.attempt && respondedAt !== undefined) one.took = Math.round(respondedAt - startedAt);
  if (credential && target.provider.credentials.length > 1) one.credential = credential.label;
  return one;
}
