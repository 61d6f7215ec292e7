import type { Attempt, DoneExchange, GatewayError, Redactor } from "model-gateway";
import type { LedgerEntry } from "model-gateway/store";

/** Maximum characters of a message, and of a list of names, in an entry. */
const MAX_MESSAGE_LENGTH = 300;

/** Adds to an entry why its exchange was refused or failed, and the client's notices. */
export function addReasons(entry: LedgerEntry, exchange: DoneExchange, redactor: Redactor): void {
  const { dropped, droppedFromResponse, notices } = exchange;
  const error = exchange.error ?? exchange.attempts.at(-1)?.refusal;
  if (error) entry.error = { code: error.code, message: redactedMessage(error, redactor) };
  if (dropped.length + droppedFromResponse.length > 0)
    entry.dropped = listed([...dropped, ...droppedFromResponse], redactor);
  if (notices.length > 0) entry.notices = listed(notices, redactor);
}

/**
 * Returns an attempt's error beyond its status, by which failures are counted. An error after its head is recorded with the
 * exchange.
 */
export function attemptError(attempt: Attempt, { attempts, error, outcome }: DoneExchange): GatewayError | undefined {
  return attempt.error ?? (outcome === "upstream_error" && attempt === attempts.at(-1) ? error : undefined);
}

/** Returns an error's redacted message: it may quote the provider, and secrets sent to it. */
export const redactedMessage = ({ message }: Pick<GatewayError, "message">, redactor: Redactor): string =>
  truncate(redactor.text(message));

const truncate = (text: string): string =>
  text.length <= MAX_MESSAGE_LENGTH ? text : `${text.slice(0, MAX_MESSAGE_LENGTH - 1)}…`.toWellFormed();

/** Returns as many names as fit, followed by the number of further ones, as in `gateway-dropped`. */
function listed(names: readonly string[], redactor: Redactor): string[] {
  const list: string[] = [];
  let room = MAX_MESSAGE_LENGTH;
  for (const name of names) {
    const text = truncate(redactor.text(name));
    room -= text.length;
    if (room < 0) return [...list, `+${names.length - list.length}`];
    list.push(text);
  }
  return list;
}
