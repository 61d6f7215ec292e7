import type { HealthLimits } from "../core/marketplace.ts";
import type { Report } from "./problems.ts";
import type { File } from "./schema.ts";

/** Milliseconds that a target is left alone at most, unless the file says otherwise. */
const LONGEST = 30_000;

/** When a provider's targets are left alone, of what the file says of them. */
export const healthOf = (written: Omit<HealthLimits, "longest"> & { longest?: number | undefined }): HealthLimits => ({
  ...written,
  longest: written.longest ?? Math.max(LONGEST, written.open),
});

/** Finds a longest time that is shorter than the first one: one of the two would not be kept. */
export function checkHealth({ health, providers }: File, report: Report): void {
  const isWrong = (open: number, longest: number | undefined) => longest !== undefined && longest < open;
  if (isWrong(health.open, health.longest)) {
    report({ path: ["health", "longest"], message: "must not be shorter than open" });
    return;
  }
  for (const [name, { health: own }] of Object.entries(providers)) {
    if (!own || !isWrong(own.open ?? health.open, own.longest ?? health.longest)) continue;
    const path = ["providers", name, "health"];
    if (own.longest !== undefined)
      report({ path: [...path, "longest"], message: "must not be shorter than open, here or in health:" });
    else report({ path: [...path, "open"], message: "must not be longer than longest in health:; write longest, too" });
  }
}
