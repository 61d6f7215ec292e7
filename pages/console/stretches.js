/**
 * Splits the time of an exchange: the gateway's own part, then for each attempt the wait for a slot, the time to connect where a
 * connection was opened, the wait for the first byte and the response, and the pause between attempts. The ledger omits times
 * below a millisecond, and so does this.
 */
export function stretches({ attempts, duration: all, firstByte }) {
  const parts = [];
  const add = (who, what, from, to, kind, why) => parts.push({ who, what, from, to, kind, ...(why && { why }) });
  const [first] = attempts;
  const begins = ({ startedAt, queue = 0 }) => Math.max(0, startedAt - queue);
  add("the gateway", first ? "before the first attempt" : "no attempt", 0, first ? begins(first) : all, "own");
  for (const [at, attempt] of attempts.entries()) {
    const { target, credential, status, error, message, startedAt, queue, connect = 0, took } = attempt;
    const who = credential ? `${target} (${credential})` : target;
    const next = attempts[at + 1];
    const end = next ? Math.min(took === undefined ? Number.POSITIVE_INFINITY : startedAt + took, begins(next)) : all;
    if (queue) add(who, "waited for a place", begins(attempt), startedAt, "queue");
    const sent = Math.min(startedAt + connect, end);
    if (connect) add(who, "connect", startedAt, sent, "connect");
    const answers = !next && firstByte !== undefined && (!error || status < 400);
    if (answers) {
      const heard = Math.min(Math.max(sent, firstByte), end);
      add(who, `${status ?? ""} until the first byte`.trim(), sent, heard, "wait");
      if (error) add(who, `answer: ${error}`, heard, end, "failed", message);
      else add(who, "answer", heard, end, "stream");
    } else {
      const failed = error !== undefined || next !== undefined || (status ?? 500) >= 400;
      add(who, error ?? `${status ?? "no answer"}`, sent, end, failed ? "failed" : "wait", message);
    }
    if (next && begins(next) - end >= 1) add("the gateway", "before the next attempt", end, begins(next), "own");
  }
  return parts;
}
