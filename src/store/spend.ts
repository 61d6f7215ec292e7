import { groupsOf, scopeOf } from "../core/limits.ts";
import type { Ledger } from "./ledger.ts";
import type { SpendSince } from "./memory-limiter.ts";

/** What the ledger knows to have been spent, by the scopes of limits. */
export const spendSince =
  (ledger: Pick<Ledger, "recovered" | "sums">): SpendSince =>
  async (since) => {
    await ledger.recovered();
    const spent = new Map<string, number>();
    for (const { group: by, cost } of await ledger.sums({ since, by: ["key", "group", "model", "target"] })) {
      const [key = "", group = "", model = "", target = ""] = by;
      const scopes = [
        scopeOf("key", key),
        ...(group === "" ? [] : groupsOf(group).map((name) => scopeOf("group", name))),
        scopeOf("model", model),
        scopeOf("provider", target.split(":", 1)[0] as string),
        scopeOf("all", ""),
      ];
      for (const scope of scopes) spent.set(scope, (spent.get(scope) ?? 0) + cost);
    }
    return spent;
  };
