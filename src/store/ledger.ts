import { type GatewayError, storeUnavailable } from "../core/errors.ts";
import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";
import type { PercentileFigures } from "./percentiles.ts";
import type { RowPlace } from "./row-place.ts";

/** What went wrong: the gateway's code of it and the beginning of what it says, without secrets. */
interface LedgerFault {
  code: string;
  message: string;
}

/** One try at one target. */
interface LedgerAttempt {
  target: string;
  /** The label of what was shown, where the provider has several. */
  credential?: string;
  status?: number;
  /** Code and message of what went wrong, as in `LedgerFault`. */
  error?: string;
  message?: string;
  /** Milliseconds since the exchange began. */
  startedAt: number;
  /** Milliseconds before that for which it waited for a place at the provider, where there was none. */
  queue?: number;
  /** Milliseconds until the connection was there, TLS included, where one had to be made. */
  connect?: number;
  /** Milliseconds until it had failed, where another one followed. */
  took?: number;
}

/** What is kept of one exchange. Prompts and answers are not. */
export interface LedgerEntry {
  /** The exchange's id: makes the entry unique, however often it is written. */
  id: string;
  /** Unix milliseconds of arrival. */
  time: number;
  /** Id of the caller's key; empty when there was no caller. */
  key: string;
  /** What group and tags that key had then. */
  group?: string;
  tags?: Readonly<Record<string, string>>;
  /** The marketplace's model that served it, or was asked last: a fallback's own; empty when none was found. */
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
  /** Why it was refused or failed, the gateway's own code and words, or a provider's as `upstream_refused`. */
  error?: LedgerFault;
  /** Names of what a translation left out, as `gateway-dropped` has them, and what `gateway-notice` told; of many the first. */
  dropped?: readonly string[];
  notices?: readonly string[];
  streaming: boolean;
  attempts: LedgerAttempt[];
  /** Milliseconds to the first byte of the answer. */
  firstByte?: number;
  /** Milliseconds in all. */
  duration: number;
  usage?: Usage;
  /** The client's address. */
  address?: string;
  /** Bytes of bodies, where they passed unread. */
  bytes?: { up: number; down: number };
  /**
   * `reported`: the provider told all. `partial`: it told something before the exchange broke off; tokens of what came out
   * are an estimate where that is more. `estimated`: it told nothing, and the tokens are those of the request and of what came
   * of the answer, about. `observed`: it broke off, and only what the provider told by then counts. `absorbed`: it broke off,
   * and costs nothing. `none`: unknown. `free`: no provider was asked, or those that were refused the request (a status from 400
   * to 499, but for 408 and 499).
   */
  source: "reported" | "partial" | "estimated" | "observed" | "absorbed" | "none" | "free";
  /**
   * What the usage belongs to, where it may be told more than once, as that of an answer that is fetched later: it counts for
   * the first entry that names it, whichever process that is written by; others are told to have none, at no cost.
   */
  once?: string;
  /**
   * Integer nano-dollars at the price of the target that served, 0 when no provider was asked or all refused; absent when usage or price is
   * unknown.
   */
  cost?: number;
  /** Names the price, as `PriceVersion` does; absent where there is none. */
  price?: string;
}

/** By `tag` what has several tags counts for each, as `name=value`. */
export type LedgerGroup = "key" | "group" | "model" | "target" | "tag" | "day";

export interface LedgerSpan {
  /** Unix milliseconds, inclusive. */
  since?: number;
  /** Unix milliseconds, exclusive. */
  until?: number;
}

export interface LedgerRows extends LedgerSpan {
  /** Only entries whose usage a vendor may charge under more names than that of the model that was asked. */
  billedApart?: boolean;
}

export interface LedgerQuery extends LedgerSpan {
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
  /** Exchanges whose usage is partial or unknown, or that have no price. */
  unsettled: number;
}

/** Which entries are wanted, newest first. */
export interface LedgerSearch extends LedgerSpan {
  limit: number;
  /** Those that come behind this one in that order. */
  before?: RowPlace;
  id?: string;
  key?: string;
  /** The group and all below it. */
  group?: string;
  model?: string;
  target?: string;
  outcome?: string;
  /** From and to, both inclusive. */
  status?: readonly [number, number];
  /** Milliseconds in all that it took more than. */
  slower?: number;
  /** Nano-dollars that it cost more than. */
  dearer?: number;
}

/** Where a search begins and ends. */
export type LedgerReach = Pick<LedgerSearch, "since" | "until" | "before">;

export type SpeedGroup = "key" | "model" | "target";

/** How fast completed exchanges were. Milliseconds, and tokens a second; absent where there are none. */
export interface LedgerSpeed {
  name: string;
  requests: number;
  firstByte: PercentileFigures | undefined;
  tokensPerSecond: PercentileFigures | undefined;
  duration: PercentileFigures | undefined;
}

/** Exchanges that did not complete. */
export interface LedgerFailure {
  target: string;
  model: string;
  outcome: string;
  status: number;
  requests: number;
}

/** Attempts that failed, also those that another one made good: the provider answered 400 or more, or not as it should. */
export interface LedgerFailedAttempts {
  target: string;
  /** What it answered; absent: nothing. */
  status?: number;
  /** The gateway's code of what went wrong; absent where the status tells all. */
  error?: string;
  attempts: number;
  /** Those whose exchange completed all the same, by another attempt. */
  answered: number;
}

/** What failed in a span, in whole and by attempts; of both the most frequent first. */
export interface LedgerFailures {
  exchanges: LedgerFailure[];
  attempts: LedgerFailedAttempts[];
}

/** How far a ledger is behind what was written down for it. */
export interface LedgerBacklog {
  /** Seconds for which it has been behind; 0: it is not. */
  readonly lag: number;
  /** Seconds since the oldest journal was written to that is not in it yet, those of processes that have died included. */
  readonly oldest: number;
  /** Of the journals' files. */
  readonly bytes: number;
  /** Times that it could not be written. */
  readonly errors: number;
}

/** Lines of a journal that are in memory only, and where they should be: the folder, and why it cannot be written. */
export interface Unwritten {
  readonly lines: number;
  readonly where: string;
}

/** Hears what an operator should know of a ledger. @param over whether it is that all is well again, and nothing was lost */
export type LedgerWarn = (message: string, fields?: object, over?: boolean) => void;

/** The record of usage. */
export abstract class Ledger {
  /** What is said to a client whose question the ledger cannot answer. */
  static silent(cause: unknown): GatewayError {
    return storeUnavailable("ledger", "The gateway's ledger cannot answer at the moment.", cause);
  }

  /**
   * An exchange asks a provider: the entry it shall have if nothing more is heard of it. Never throws and never waits, as
   * `append`: a store that is down must not stop traffic.
   */
  abstract begin(entry: LedgerEntry): void;
  /** An exchange has ended. */
  abstract append(entry: LedgerEntry): void;
  /** Makes what was told so far survive the death of this process. To be called before bytes leave that follow from it. */
  abstract persist(): void;
  /** Until all that was told so far is in the store. */
  abstract flush(): Promise<void>;
  /** Resolves when the journals of dead processes are in the store, or after a few seconds where it is unclear whether their owners live. */
  abstract recovered(): Promise<void>;
  abstract sums(query: LedgerQuery): Promise<LedgerSum[]>;
  /** Newest first. */
  abstract recent(limit: number): Promise<LedgerEntry[]>;
  abstract search(search: LedgerSearch): Promise<LedgerEntry[]>;
  /**
   * How far back so many rows go, so that a search which finds little can be asked in parts.
   * @returns when the last of them began, Unix milliseconds; 0: there are no more of them
   */
  abstract reach(search: LedgerReach, rows: number): Promise<number>;
  /** @param by absent: all in one, with an empty name */
  abstract speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]>;
  abstract failures(span: LedgerSpan): Promise<LedgerFailures>;
  /** The first millisecond of the hour in which each of these keys was used last; those that never were are missing. */
  abstract lastUsed(keys: readonly string[]): Promise<Map<string, number>>;
  /**
   * One entry for each exchange that has ended, oldest first, as many as there are: also those that a process of this machine
   * has written down and that are not in the store yet.
   */
  abstract entries(rows: LedgerRows): AsyncIterable<LedgerEntry>;
  abstract close(): Promise<void>;
  /** Whether entries get to the disk. */
  abstract get state(): "ok" | "waiting";
  /** What would be lost if this process were killed now, as its journal cannot be written; undefined: nothing. */
  get unwritten(): Unwritten | undefined {
    return undefined;
  }
  /** How many lines were lost when it was closed, as its journal could not be written. */
  readonly lostLines: number = 0;
  /**
   * Whether other gateways of this machine write to the same store.
   * @param parent of processes that are one gateway with this one; undefined: there are none
   */
  isShared(_parent?: number): boolean {
    return false;
  }
  /**
   * Until nothing is unwritten, or that was waited for long enough.
   * @param patience milliseconds
   * @param hurry ends it before
   */
  async written(_patience: number, _hurry?: AbortSignal): Promise<void> {}
  /** Where rows do not wait in a journal there is nothing to be behind of. */
  async backlog(): Promise<LedgerBacklog> {
    return { lag: 0, oldest: 0, bytes: 0, errors: 0 };
  }
}
