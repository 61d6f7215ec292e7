import type { HealthLimits } from "../core/marketplace.ts";
import type { Report } from "./problems.ts";
import type { GatewayFile } from "./schema.ts";

/** Default maximum milliseconds that a target is out of use. */
const DEFAULT_LONGEST = 30_000;

/** Returns the health limits of a provider's targets from the file's settings. */
export const healthLimits = (
  written: Omit<HealthLimits, "longest"> & { longest?: number | undefined },
): HealthLimits => ({
  ...written,
  longest: written.longest ?? Math.max(DEFAULT_LONGEST, written.open),
});

/** Finds a `longest` that is shorter than `open`: one of the two could not be kept. */
export function checkHealth({ health, providers }: GatewayFile, report: Report): void {
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
