import type { Config } from "../config/types.ts";
import { COUNTED_TWICE } from "../store/other-gateways.ts";

/** Whether requests shall come, and what each part says of itself: `ok`, or what is the matter. */
export interface Readiness {
  readonly ready: boolean;
  readonly parts: Readonly<Record<string, string>>;
}

/** What a part is that only workers know of, while none serves. */
export const UNKNOWN = "unknown";

/**
 * Why not all is well: which store a part waits for or does without, by its setting, and workers that are missing. No addresses,
 * as anybody may ask.
 */
export function whyNot(
  { store, limits }: Readiness["parts"],
  config: Pick<Config, "store">,
  { wanted, up }: { wanted: number; up: number } = { wanted: 0, up: 0 },
): string[] {
  const ledger = () => (config.store.postgres ? "PostgreSQL (store: ledger)" : "the file of store: ledger");
  return [
    ...(up < wanted ? [missing(wanted, up)] : []),
    ...(store === "waiting" ? [`rows wait in the journal for ${ledger()}, or in memory for the journal's disk`] : []),
    ...(limits === "apart" ? ["Redis (store: limits) is away: each gateway keeps to its part"] : []),
    ...(limits === "twice" ? [COUNTED_TWICE] : []),
  ];
}

const missing = (wanted: number, up: number): string =>
  up === 0
    ? "no worker serves, and connections are closed until one does: the log says why they ended, and why none starts"
    : `${up} of ${wanted} workers serve all connections: the log says why the others ended, or do not start`;
