/** Milliseconds between ticks. */
const TICK = 5;

interface Waiting {
  left: number;
  readonly act: () => void;
}

const waiting = new Set<Waiting>();
let ticker: NodeJS.Timeout | undefined;

function tick(): void {
  for (const each of waiting) {
    each.left -= TICK;
    if (each.left > 0) continue;
    waiting.delete(each);
    each.act();
  }
  if (waiting.size > 0) return;
  clearInterval(ticker);
  ticker = undefined;
}

/**
 * Runs `act` after so many milliseconds in which this process could have received something; returns a function that cancels
 * it. Sockets are polled between any two ticks, so time in which a busy machine did not run the process counts as one tick
 * only.
 */
export function afterHearing(milliseconds: number, act: () => void): () => void {
  const each = { left: milliseconds, act };
  waiting.add(each);
  ticker ??= setInterval(tick, TICK);
  return () => waiting.delete(each);
}
