/** Forecasts of budgets. */

/**
 * Returns when a budget will be spent at its average rate since it began.
 * @returns Unix milliseconds, `Infinity` where it lasts; undefined: its beginning is unknown
 */
export function endOf({ limit, spent, began, resets = Number.POSITIVE_INFINITY }, now = Date.now()) {
  if (spent >= limit) return now;
  if (began === undefined) return undefined;
  const end = began + ((now - began) / spent) * limit;
  return end < resets ? end : Number.POSITIVE_INFINITY;
}

/** Sorts budgets by the spent share, highest first. */
export function spentFirst(budgets) {
  const share = ({ spent, limit }) => (limit > 0 ? spent / limit : 1);
  return budgets.toSorted((one, other) => share(other) - share(one));
}
