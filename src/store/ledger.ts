import { type GatewayError, storeUnavailable } from "../core/errors.ts";
import type { Outcome } from "../core/exchange.ts";
import type { Usage } from "../core/usage.ts";
import type { RunningReservation } from "./limiter.ts";
import type { PercentileFigures } from "./percentiles.ts";

/** An error: the gateway's code, and the beginning of its message, without secrets. */
interface LedgerFault {
  code: string;
  message: string;
}

/** One attempt at one target. */
interface LedgerAttempt {
  target: string;
  /** The label of the credential, where the provider has several. */
  credential?: string;
  status?: number;
  /** Code and message of the error, as in `LedgerFault`. */
  error?: string;
  message?: string;
  /** Milliseconds since the exchange began. */
  startedAt: number;
  /** Milliseconds spent before that in the queue for a free place at the provider. */
  queue?: number;
  /** Milliseconds to connect, TLS included; absent if a connection was reused. */
  connect?: number;
  /** Milliseconds until it failed, if another attempt followed. */
  took?: number;
}

/** The record of one exchange. It contains no prompts and no responses. */
export interface LedgerEntry {
  /** The exchange's id: it makes the entry unique, however often it is written. */
  id: string;
  /** Unix milliseconds of arrival. */
  time: number;
  /** Id of the caller's key; empty without a caller. */
  key: string;
  /** Group and tags of that key at the time. */
  group?: string;
  tags?: Readonly<Record<string, string>>;
  /** The marketplace's model that served it, or was tried last: for a fallback, the fallback's; empty if none was found. */
  model: string;
  /** The provider and vendor model that responded, as `provider:model`; `answered by NAME` for a plugin; empty if none did. */
  target: string;
  protocol: string;
  operation: string;
  /** The HTTP status sent to the client; 499 if it had disconnected before. */
  status: number;
  outcome: Outcome;
  /** Why it was refused or failed: the gateway's own code and message, or a provider's as `upstream_refused`. */
  error?: LedgerFault;
  /** Names of what a translation dropped, as in `gateway-dropped`, and notices as in `gateway-notice`; only the first of many. */
  dropped?: readonly string[];
  notices?: readonly string[];
  streaming: boolean;
  attempts: LedgerAttempt[];
  /** Milliseconds to the first byte of the response. */
  firstByte?: number;
  /** Total milliseconds. */
  duration: number;
  usage?: Usage;
  /** The client's address. */
  address?: string;
  /** Bytes of bodies that passed through unparsed. */
  bytes?: { up: number; down: number };
  /**
   * `reported`: the provider reported everything. `partial`: it reported some usage before the exchange was cut; output tokens
   * are an estimate if that is higher. `estimated`: it reported nothing, and the tokens of the request and of the received part
   * of the response are estimated. `observed`: it was cut, and only what the provider had reported counts. `absorbed`: it was
   * cut, and costs nothing. `none`: unknown. `free`: no provider received the request, or all of them refused it (a status from
   * 400 to 499, except 408 and 499), or it generated nothing, such as a count of tokens or a look at a stored response.
   */
  source: "reported" | "partial" | "estimated" | "observed" | "absorbed" | "none" | "free";
  /**
   * Identifies usage that may be reported more than once, such as that of a response that is fetched later. It counts for the
   * first entry with this name, from any process; later entries are stored without usage and name, at no cost.
   */
  once?: string;
  /**
   * Integer nano-dollars at the price of the target that served; 0 if `source` is `free`;
   * absent if usage or price is unknown.
   */
  cost?: number;
  /** Nano-dollars that budgets count instead of an unknown cost: the least that the usage must have cost. No report adds it. */
  assumedCost?: number;
  /** The name of the price, as in `PriceVersion`; absent if there is none. */
  price?: string;
}

/** With `tag`, an entry counts once for each of its tags, as `name=value`. */
export type LedgerGroup = "key" | "group" | "model" | "target" | "tag" | "day";

export interface LedgerSpan {
  /** Unix milliseconds, inclusive. */
  since?: number;
  /** Unix milliseconds, exclusive. */
  until?: number;
}

export interface LedgerRows extends LedgerSpan {
  /** Only entries whose usage a vendor may bill under names besides that of the requested model. */
  billedApart?: boolean;
}

export interface LedgerQuery extends LedgerSpan {
  by: readonly LedgerGroup[];
  /** Only so many sums: the most expensive. */
  limit?: number;
  /** Values to which some of the groups are limited. */
  among?: { readonly [group in Exclude<LedgerGroup, "day">]?: readonly string[] };
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
  /** Nano-dollars that budgets count in addition, as in `LedgerEntry`. */
  assumedCost: number;
  /** Exchanges whose usage is partial or unknown, or that have no price. */
  unsettled: number;
}

/** A row's position in the order of all rows. */
export type RowCursor = Readonly<Pick<LedgerEntry, "time" | "id">>;

/** A query for entries, newest first. */
export interface LedgerSearch extends LedgerSpan {
  limit: number;
  /** Only entries after this one in that order. */
  before?: RowCursor;
  id?: string;
  key?: string;
  /** The group and its subgroups. */
  group?: string;
  model?: string;
  target?: string;
  outcome?: string;
  /** From and to, both inclusive. */
  status?: readonly [number, number];
  /** Only entries that took longer than so many milliseconds. */
  durationAbove?: number;
  /** Only entries that cost more than so many nano-dollars. */
  costAbove?: number;
}

/** What a search looks for. */
export type LedgerFilter = Omit<LedgerSearch, "limit">;

export type SpeedGroup = "key" | "model" | "target";

/** Response speeds of completed exchanges, in milliseconds and tokens per second; absent without values. */
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

/** Failed attempts, also those followed by a successful one: a status of 400 or more, or an invalid response. */
export interface LedgerFailedAttempts {
  target: string;
  /** The provider's status; absent without a response. */
  status?: number;
  /** The gateway's code of the error; absent where the status is the whole error. */
  error?: string;
  attempts: number;
  /** Those whose exchange still completed, by another attempt. */
  answered: number;
}

/** Failures in a span, by exchange and by attempt; the most frequent first. */
export interface LedgerFailures {
  exchanges: LedgerFailure[];
  attempts: LedgerFailedAttempts[];
}

/** How far a ledger is behind its journals. */
export interface LedgerBacklog {
  /** Seconds for which it has been behind; 0: it is not. */
  readonly lag: number;
  /** Seconds since the last write to the oldest unread journal, including those of dead processes. */
  readonly oldest: number;
  /** Size of the journals' files. */
  readonly bytes: number;
  /** Number of failed writes. */
  readonly errors: number;
}

/** A place in a journal: rows in the ledger's store are those before its position there. */
export interface JournalEnd {
  readonly journal: string;
  readonly position: number;
}

/** Sums, and how far they include each journal that had rows within two days: positions by the journal's name. */
export interface PlacedSums {
  readonly sums: readonly LedgerSum[];
  readonly positions: ReadonlyMap<string, number>;
}

/** Journal lines that are in memory only, and why: the folder, and the error of writing to it. */
export interface UnwrittenLines {
  readonly lines: number;
  readonly where: string;
}

/** Reports problems of a ledger to operators. @param over true if a problem is over and nothing was lost */
export type LedgerWarn = (message: string, fields?: object, over?: boolean) => void;

/** The record of usage. */
export abstract class Ledger {
  /** Returns the error for a client whose query the ledger cannot serve. */
  static unavailableError(cause: unknown): GatewayError {
    return storeUnavailable("ledger", "The gateway's ledger cannot answer at the moment.", cause);
  }

  /** Returns the tokens that limits count of an entry's usage, including what the vendor ran besides. */
  static tokensOf({ usage }: Pick<LedgerEntry, "usage">): number {
    const parts = usage ? [usage, ...(usage.besides ?? [])] : [];
    return parts.reduce((sum, { in: input, out }) => sum + (input.total ?? 0) + (out.total ?? 0), 0);
  }

  /**
   * Records the start of an exchange that contacts a provider: `entry` is stored if its end is never recorded. Never throws and
   * never blocks, like `append`: a store that is down must not stop traffic.
   */
  abstract begin(entry: LedgerEntry): void;
  /** Records the end of an exchange. */
  abstract append(entry: LedgerEntry): void;
  /** Makes all entries so far survive the death of this process. Must be called before dependent bytes are sent. */
  abstract persist(): void;
  /** Called before entries so far are read into the store, where others see them. */
  onFeed: () => void = () => {};
  /** Waits until all entries so far are in the store. */
  abstract flush(): Promise<void>;
  /**
   * Resolves when the journals of dead processes are in the store, or after a few seconds where it is unclear whether their
   * owners live.
   */
  abstract recovered(): Promise<void>;
  /**
   * Records what running exchanges have reserved, for the process that succeeds this one or its primary, once all that have ended
   * are in the store. A later record replaces it.
   */
  async recordOrphaned(_orphaned: readonly RunningReservation[]): Promise<void> {}
  /** Returns what the running exchanges of processes on this machine have reserved that are stopping, or have lost their primary. */
  async orphanedElsewhere(): Promise<readonly RunningReservation[]> {
    return [];
  }
  /** The journal of this process, and where the entries so far end there. */
  get place(): JournalEnd {
    return { journal: "none", position: Number.MAX_SAFE_INTEGER };
  }
  abstract sums(query: LedgerQuery): Promise<LedgerSum[]>;
  /** Returns sums with the positions up to which they include the journals of processes. */
  async placedSums(query: LedgerQuery): Promise<PlacedSums> {
    return { sums: await this.sums(query), positions: new Map() };
  }
  /** Newest first. */
  abstract recent(limit: number): Promise<LedgerEntry[]>;
  abstract search(search: LedgerSearch): Promise<LedgerEntry[]>;
  /**
   * Finds how far back so many rows within a filter's bounds reach, so that a search with few matches can be split.
   * @returns the start of the last of these rows, Unix milliseconds; 0: there are fewer rows; undefined: no row can match the
   * filter, like that of a key that was never used
   */
  abstract reach(filter: LedgerFilter, rows: number): Promise<number | undefined>;
  /** @param by absent: all in one, with an empty name */
  abstract speeds(span: LedgerSpan, by?: SpeedGroup): Promise<LedgerSpeed[]>;
  abstract failures(span: LedgerSpan): Promise<LedgerFailures>;
  /** Returns the start of the hour in which each of these keys was last used; keys that were never used are missing. */
  abstract lastUsed(keys: readonly string[]): Promise<Map<string, number>>;
  /** Returns the newest names of usage that counts once and has been counted, the oldest of them first. */
  abstract countedNames(limit: number): Promise<readonly string[]>;
  /**
   * Yields one entry for each exchange that has ended, oldest first, without a limit, including those journaled by processes on
   * this machine and not in the store yet.
   */
  abstract entries(rows: LedgerRows): AsyncIterable<LedgerEntry>;
  abstract close(): Promise<void>;
  /** Whether entries reach the disk. */
  abstract get state(): "ok" | "waiting";
  /** From now on `state` also tells of a database that goes down before the first entry. */
  watch(): void {}
  /** Reports whether exchanges that have ended, here or in other gateways on this machine, wait for the store: sums lack them. */
  isBehind(): boolean {
    return this.state === "waiting";
  }
  /** What would be lost if this process were killed now, because its journal cannot be written; undefined: nothing. */
  get unwritten(): UnwrittenLines | undefined {
    return undefined;
  }
  /** Number of lines lost on closing, because the journal could not be written. */
  readonly lostLines: number = 0;
  /**
   * Reports whether other gateways on this machine write to the same store.
   * @param _parent parent of the processes that form one gateway with this one; undefined: there are none
   */
  isShared(_parent?: number): boolean {
    return false;
  }
  /**
   * Waits until nothing is unwritten, or the time is over.
   * @param _timeout milliseconds
   * @param _interrupt ends the wait early
   */
  async written(_timeout: number, _interrupt?: AbortSignal): Promise<void> {}
  /** Without a journal, the ledger is never behind. */
  async backlog(): Promise<LedgerBacklog> {
    return { lag: 0, oldest: 0, bytes: 0, errors: 0 };
  }
}
