import type { Config } from "../config/types.ts";

/** Whether requests shall come, and what each part says of itself: `ok`, or what is the matter. */
export interface Readiness {
  readonly ready: boolean;
  readonly parts: Readonly<Record<string, string>>;
}

/** Which store it is that a part waits for or does without, by its setting; no addresses, as anybody may ask. */
export function whyNot({ store, limits }: Readiness["parts"], config: Pick<Config, "store">): string[] {
  const ledger = () => (config.store.postgres ? "PostgreSQL (store: ledger)" : "the file of store: ledger");
  return [
    ...(store === "waiting" ? [`rows wait in the journal for ${ledger()}, or in memory for the journal's disk`] : []),
    ...(limits === "apart" ? ["Redis (store: limits) is away: each gateway keeps to its part"] : []),
  ];
}
