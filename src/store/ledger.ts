import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";

/** What is kept of one exchange. Prompts and answers are not. */
export interface LedgerEntry {
  /** The exchange's id: makes the entry unique, however often it is written. */
  id: string;
  /** Unix milliseconds of arrival. */
  time: number;
  /** Id of the caller's key; empty when there was no caller. */
  key: string;
  /** The marketplace's model; empty when none was found. */
  model: string;
  /**
   * Provider and vendor model that answered, `provider:model`; `answered by NAME` when a plugin did itself; empty when
   * nobody did.
   */
  target: string;
  protocol: string;
  operation: string;
  /** HTTP status sent to the client; 499 when it had left before. */
  status: number;
  outcome: Outcome;
  streaming: boolean;
  attempts: { target: string; status?: number; error?: string; startedAt: number }[];
  /** Milliseconds to the first byte of the answer. */
  firstByte?: number;
  /** Milliseconds in all. */
  duration: number;
  usage?: Usage;
  /** Bytes of bodies, where they passed unread. */
  bytes?: { up: number; down: number };
  /**
   * `reported`: the provider told all. `partial`: it told something before the exchange broke off. `none`: unknown. `free`:
   * no provider was asked.
   */
  source: "reported" | "partial" | "none" | "free";
  /** Integer nano-dollars at the model's price, 0 when no provider was asked; absent when usage is unknown. */
  cost?: number;
}

export type LedgerGroup = "key" | "model" | "target" | "day";

export interface LedgerQuery {
  /** Unix milliseconds, inclusive. */
  since?: number;
  /** Unix milliseconds, exclusive. */
  until?: number;
  by: readonly LedgerGroup[];
}

export interface LedgerSum {
  /** One value for each of the query's groups. */
  group: readonly string[];
  requests: number;
  /** Exchanges that did not complete. */
  failed: number;
  tokensIn: number;
  cached: number;
  tokensOut: number;
  reasoning: number;
  /** Nano-dollars. */
  cost: number;
  /** Exchanges whose usage is partial or unknown. */
  unsettled: number;
}

/** The record of usage. Entries are queued and written in batches; `flush` waits until they are on disk. */
export abstract class Ledger {
  /** Never throws and never waits: a store that is down must not stop traffic. */
  abstract append(entry: LedgerEntry): void;
  abstract flush(): Promise<void>;
  abstract sums(query: LedgerQuery): Promise<LedgerSum[]>;
  /** Newest first. */
  abstract recent(limit: number): Promise<LedgerEntry[]>;
  abstract close(): Promise<void>;
}
