import type { Period } from "./calendar.ts";
import type { LimitLevel } from "./limits.ts";

/** Formats nano-dollars; sums below one dollar with all significant digits. */
export function formatDollars(nano: number): string {
  const sum = nano / 1e9;
  if (sum === 0 || sum >= 1) return `$${sum.toFixed(2)}`;
  return `$${sum
    .toFixed(9)
    .replace(/0+$/, "")
    .replace(/\.(\d?)$/, (_, digit: string) => `.${digit.padEnd(2, "0")}`)}`;
}

/** Returns how often a budget begins anew, in words that follow its amount. */
export const eachPeriod = (per: Exclude<Period, "total">): string => `${per === "hour" ? "an" : "a"} ${per}`;

/** Returns the owner of a limit as the beginning of a sentence. */
export function limitOwner({ kind, name, label = name }: Pick<LimitLevel, "kind" | "name" | "label">): string {
  if (kind === "all") return "The gateway";
  return name === "" ? "All callers without a key" : `The ${kind} ${JSON.stringify(label)}`;
}
