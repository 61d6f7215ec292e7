import type { Config } from "../config/types.ts";
import { COUNTED_TWICE } from "../store/other-gateways.ts";

/** Whether requests should be sent here, and the state of each part: `ok`, or the problem. */
export interface Readiness {
  readonly ready: boolean;
  readonly parts: Readonly<Record<string, string>>;
}

/** The state of a part that only workers know, while none serves. */
export const UNKNOWN_STATE = "unknown";

/**
 * Returns why something is not ok: a store that a part waits for or works without, named by its setting, and missing workers.
 * Contains no addresses, because the endpoint is public.
 */
export function readinessProblems(
  { store, limits }: Readiness["parts"],
  config: Pick<Config, "store">,
  { wanted, up }: { wanted: number; up: number } = { wanted: 0, up: 0 },
): string[] {
  const ledger = () => (config.store.postgres ? "PostgreSQL (store: ledger)" : "the file of store: ledger");
  return [
    ...(up < wanted ? [missingWorkers(wanted, up)] : []),
    ...(store === "waiting" ? [`rows wait in the journal for ${ledger()}, or in memory for the journal's disk`] : []),
    ...(limits === "apart"
      ? ["Redis (store: limits) is unavailable: each gateway enforces its part of the limits"]
      : []),
    ...(limits === "twice" ? [COUNTED_TWICE] : []),
  ];
}

const missingWorkers = (wanted: number, up: number): string =>
  up === 0
    ? "no worker serves, and connections are closed until one does: the log says why they ended, and why none starts"
    : `${up} of ${wanted} workers serve all connections: see the log for why the others ended or do not start`;
