import type { Attempt, DoneExchange, GatewayError, Redactor } from "model-gateway";
import type { LedgerEntry } from "model-gateway/store";

/** Characters that a row keeps of a message, and of a list of names. */
const LONGEST = 300;

/** What an entry tells of an error. */
type FaultWords = Pick<GatewayError, "code" | "message">;

/** Tells in an entry why its exchange was refused or failed, and what the client was told beside its answer. */
export function tellWhy(entry: LedgerEntry, exchange: DoneExchange, redactor: Redactor): void {
  const { dropped, droppedFromAnswer, notices } = exchange;
  const error = exchange.error ?? exchange.attempts.at(-1)?.refusal;
  if (error) entry.error = { code: error.code, message: messageOf(error, redactor) };
  if (dropped.length + droppedFromAnswer.length > 0)
    entry.dropped = listed([...dropped, ...droppedFromAnswer], redactor);
  if (notices.length > 0) entry.notices = listed(notices, redactor);
}

/**
 * What went wrong with an attempt, but for what its status tells: failures are counted by that. What broke off behind its head
 * stands with the exchange.
 */
export function faultOf(attempt: Attempt, { attempts, error, outcome }: DoneExchange): GatewayError | undefined {
  return attempt.error ?? (outcome === "upstream_error" && attempt === attempts.at(-1) ? error : undefined);
}

/** What an error says, as a row has it: it may hold a provider's words, and with them what that was shown. */
export const messageOf = ({ message }: FaultWords, redactor: Redactor): string => cut(redactor.text(message));

const cut = (text: string): string => (text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`.toWellFormed());

/** Names as far as there is room for them; how many more there are stands behind them, as in `gateway-dropped`. */
function listed(names: readonly string[], redactor: Redactor): string[] {
  const list: string[] = [];
  let room = LONGEST;
  for (const name of names) {
    const text = cut(redactor.text(name));
    room -= text.length;
    if (room < 0) return [...list, `+${names.length - list.length}`];
    list.push(text);
  }
  return list;
}
