/// <reference types="node" preserve="true" />
/** The additional exports for plugins about keys, limits, usage or money: `import { … } from "model-gateway/store"`. */

export { JsonUsage } from "./core/json-usage.ts";
export { limitOwner } from "./core/limit-messages.ts";
export { Levels, type LimitLevel } from "./core/limits.ts";
export { cost } from "./core/price.ts";
export { minimumCost, totalCost } from "./core/price-list.ts";
export { premiumTier, tierMembers } from "./core/service-tier.ts";
export type { Usage } from "./core/usage.ts";
export { ObjectAccess } from "./objects/objects.ts";
export { KeptValues } from "./store/kept-values.ts";
export { type KeyRecord, Keys } from "./store/keys.ts";
export { Ledger, type LedgerEntry } from "./store/ledger.ts";
export { describeExcess } from "./store/limit-results.ts";
export { type Excess, Limiter, type LimitStatus, type ReserveResult, type Spending } from "./store/limiter.ts";
