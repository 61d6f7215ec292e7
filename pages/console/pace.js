/** How long money lasts. */

/**
 * When a budget is spent if it goes on as it has since it began.
 * @returns Unix milliseconds, `Infinity` where it lasts; undefined: nobody knows when it began
 */
export function endOf({ limit, spent, began, resets = Number.POSITIVE_INFINITY }, now = Date.now()) {
  if (spent >= limit) return now;
  if (began === undefined) return undefined;
  const end = began + ((now - began) / spent) * limit;
  return end < resets ? end : Number.POSITIVE_INFINITY;
}

/** Budgets by the share of them that is spent, highest first. */
export function spentFirst(budgets) {
  const share = ({ spent, limit }) => (limit > 0 ? spent / limit : 1);
  return budgets.toSorted((one, other) => share(other) - share(one));
}
