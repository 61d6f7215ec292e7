import { randomRetryAfter } from "./admission.ts";
import { GatewayError } from "./errors.ts";

/**
 * Bytes of each account that are not counted, so that requests and messages of the usual size are accepted while others have taken
 * all of the memory. 500 accounts need 32 MB for them.
 */
export const UNCOUNTED_BYTES = 64 * 1024;

/**
 * Bytes of each request's body that are not counted while it is answered: requests of the usual size are accepted whatever others
 * hold, and as many as the limits of their keys allow.
 */
export const MAX_UNCOUNTED_BODY = 1024 * 1024;

/** How many bytes may be buffered at the same time. */
export interface BufferLimits {
  readonly perCaller: number;
  /** Bytes of all callers together. */
  readonly total: number;
  /** Milliseconds after which a caller may lose its only account to others; default 10 s. */
  readonly patience?: number | undefined;
}

const DEFAULT_PATIENCE = 10_000;

/** Is called when an account loses its bytes to another caller: it has to let go of what it has buffered. */
export type PreemptListener = (error: GatewayError) => void;

/** What the accounts of one caller have together, and those of them that have something. */
interface CallerShare {
  bytes: number;
  readonly accounts: Set<BufferAccount>;
}

/**
 * Counts the bytes that are buffered of incomplete input, in a process and for each caller. Where the total is exhausted, a caller
 * that has less than the average gets room from the one that has most.
 */
export class BufferMemory {
  private used = 0;
  private readonly shares = new Map<string, CallerShare>();
  /** Bytes that requests retain while they are answered, by caller, and their sum. */
  private readonly retained = new Map<string, number>();
  private allRetained = 0;

  /** @param now the time in milliseconds */
  constructor(readonly now: () => number = () => performance.now()) {}

  /** Bytes that are counted now. */
  get size(): number {
    return this.used;
  }

  /**
   * Opens the account of one request or socket.
   * @param caller the id of a key, or a network
   * @param onPreempted undefined: it never loses its bytes to others
   */
  account(caller: string, limits: BufferLimits, onPreempted?: PreemptListener): BufferAccount {
    return new BufferAccount(this, caller, limits, onPreempted);
  }

  /**
   * Counts more bytes, or fewer, of an account.
   * @returns the limit that forbids them, where there is no room; nothing has changed then
   */
  add(bytes: number, account: BufferAccount): keyof BufferLimits | undefined {
    const { caller, limits } = account;
    if (bytes > 0 && caller !== undefined) {
      const share = (this.shares.get(caller)?.bytes ?? 0) + bytes;
      if (share > limits.perCaller) return "perCaller";
    }
    if (bytes > 0 && this.used + bytes > limits.total) {
      const losers = caller === undefined ? undefined : this.findLosers(caller, bytes, limits);
      if (!losers) return "total";
      for (const loser of losers) loser.preempt();
    }
    this.used += bytes;
    if (caller !== undefined) this.addToShare(bytes, caller, account);
    return undefined;
  }

  /** Changes the bytes of an account that count for a caller. */
  addToShare(bytes: number, caller: string, account: BufferAccount): void {
    const share = this.shares.get(caller) ?? { bytes: 0, accounts: new Set() };
    share.bytes += bytes;
    if (share.bytes > 0) this.shares.set(caller, share);
    else this.shares.delete(caller);
    if (account.size + bytes > 0) share.accounts.add(account);
    else share.accounts.delete(account);
  }

  /**
   * Counts bytes that a caller retains while a request is answered; they never give way. All callers together may retain half of the
   * total, one as much as it leaves free of that, and at most its own limit; its first request may take all that is free. One
   * request always fits.
   * @returns false where there is no room for them; nothing has changed then
   */
  retain(bytes: number, caller: string, { perCaller, total }: BufferLimits): boolean {
    const own = this.retained.get(caller) ?? 0;
    const free = total / 2 - this.allRetained - bytes;
    if (bytes > 0 && this.allRetained > 0 && (free < 0 || (own > 0 && own + bytes > Math.min(free, perCaller))))
      return false;
    this.allRetained += bytes;
    if (own + bytes > 0) this.retained.set(caller, own + bytes);
    else this.retained.delete(caller);
    return true;
  }

  /** Returns the accounts that give up their bytes for those that a caller needs; undefined: they would not suffice. */
  private findLosers(needy: string, bytes: number, limits: BufferLimits): readonly BufferAccount[] | undefined {
    const shares = new Map(this.shares);
    const losers: BufferAccount[] = [];
    for (let excess = this.used + bytes - limits.total; excess > 0; ) {
      const [caller, loser] = findLoser(shares, needy, bytes, limits) ?? [];
      if (caller === undefined || !loser) return undefined;
      losers.push(loser);
      excess -= loser.size;
      const { bytes: before, accounts } = shares.get(caller) as CallerShare;
      const rest = { bytes: before - loser.size, accounts: accounts.difference(new Set([loser])) };
      if (rest.bytes > 0) shares.set(caller, rest);
      else shares.delete(caller);
    }
    return losers;
  }
}

/**
 * Returns the account that gives up its bytes for those that a caller needs, and its caller: the one that has most, of whose
 * accounts it is the one with the largest product of bytes and age. None where the needy caller itself would have more than the
 * average.
 */
function findLoser(
  shares: ReadonlyMap<string, CallerShare>,
  needy: string,
  bytes: number,
  { patience = DEFAULT_PATIENCE }: BufferLimits,
): readonly [caller: string, loser: BufferAccount] | undefined {
  const own = shares.get(needy)?.bytes ?? 0;
  const all = shares.values().reduce((sum, share) => sum + share.bytes, bytes);
  const average = all / (shares.size + (shares.has(needy) ? 0 : 1));
  if (own + bytes > average) return undefined;
  let found: readonly [string, BufferAccount] | undefined;
  let most = average;
  for (const [caller, share] of shares) {
    if (share.bytes <= most) continue;
    // A caller's only body is spared while it may still be on its way: it would be the one that is nearly complete.
    const minAge = share.accounts.size > 1 ? 0 : patience;
    const loser = heaviestAccount(share.accounts, minAge);
    if (loser) [found, most] = [[caller, loser], share.bytes];
  }
  return found;
}

/** Returns the account with the largest product of bytes and age, of those that may be preempted. */
function heaviestAccount(accounts: Iterable<BufferAccount>, minAge: number): BufferAccount | undefined {
  let found: BufferAccount | undefined;
  let highest = -1;
  for (const account of accounts) {
    const { age } = account;
    if (!account.isPreemptible || age < minAge || account.size * age <= highest) continue;
    highest = account.size * age;
    found = account;
  }
  return found;
}

/** What one request or socket uses of a {@link BufferMemory}. */
export class BufferAccount {
  private counted = 0;
  /** Bytes in use, with those that are not counted. */
  private inUse = 0;
  private closed = false;
  private callerId: string | undefined;
  /** The bytes that it retains while its request is answered, and for whom. */
  private retained: { readonly bytes: number; readonly caller: string } | undefined;
  /** Since when it has had bytes that are counted. */
  private since = 0;

  constructor(
    private readonly memory: BufferMemory,
    caller: string,
    readonly limits: BufferLimits,
    private onPreempted: PreemptListener | undefined,
  ) {
    this.callerId = caller;
  }

  /** The caller for whom its bytes count; undefined: they count for all together only. */
  get caller(): string | undefined {
    return this.callerId;
  }

  /** Bytes that are counted. */
  get size(): number {
    return this.counted;
  }

  /** Milliseconds for which it has had bytes. */
  get age(): number {
    return this.memory.now() - this.since;
  }

  /** Whether it loses its bytes where other callers need them. */
  get isPreemptible(): boolean {
    return this.onPreempted !== undefined;
  }

  /**
   * Changes the bytes in use.
   * @returns the limit that forbids them, where there is no room; nothing has changed then
   */
  set(bytes: number): keyof BufferLimits | undefined {
    const more = Math.max(0, bytes - UNCOUNTED_BYTES) - this.counted;
    if (this.closed) return undefined;
    const exceeded = more === 0 ? undefined : this.memory.add(more, this);
    if (exceeded !== undefined) return exceeded;
    this.inUse = bytes;
    if (this.counted === 0 && more > 0) this.since = this.memory.now();
    this.counted += more;
    return undefined;
  }

  /** Changes the bytes in use by this many. @returns as `set` */
  add(bytes: number): keyof BufferLimits | undefined {
    return this.set(this.inUse + bytes);
  }

  /** Keeps its bytes from now on, whatever others need: what they belong to has arrived. */
  protect(): void {
    this.onPreempted = undefined;
  }

  /** Gives up its bytes for another caller. */
  preempt(): void {
    this.onPreempted?.(preemptedError());
    this.close();
  }

  /**
   * Leaves the caller's share, as the request goes on: what the account has counts for all callers together only. What exceeds
   * `MAX_UNCOUNTED_BODY` is retained until the end.
   * @throws GatewayError `overloaded` where there is no room for that
   */
  retainWhileAnswered(): void {
    const { callerId: caller } = this;
    if (caller === undefined || this.closed) return;
    const bytes = Math.max(0, this.inUse - MAX_UNCOUNTED_BODY);
    if (!this.memory.retain(bytes, caller, this.limits)) throw retainedBodiesError();
    this.retained = { bytes, caller };
    this.memory.addToShare(-this.counted, caller, this);
    this.callerId = undefined;
  }

  /** Releases all but what is retained; nothing more is counted from now on. */
  releaseAllButRetained(): void {
    if (this.closed) return;
    const bytes = Math.min(this.retained?.bytes ?? 0, this.counted);
    this.memory.add(bytes - this.counted, this);
    this.counted = bytes;
    this.closed = true;
  }

  /** Releases all of them; nothing is counted from now on. */
  close(): void {
    this.closed = false;
    this.set(0);
    this.closed = true;
    if (this.retained) this.memory.retain(-this.retained.bytes, this.retained.caller, this.limits);
    this.retained = undefined;
  }
}

/** Returns the error for an answer that is given up, as there is no room to buffer it. */
export const bufferedAnswerError = (exceeded: keyof BufferLimits): GatewayError =>
  new GatewayError("overloaded", {
    message:
      exceeded === "perCaller"
        ? "The answers that are buffered at the same time for this key, or this network, are too large together."
        : "The answers that are buffered at the same time are too large together.",
    retryAfter: randomRetryAfter(),
  });

const retainedBodiesError = (): GatewayError =>
  new GatewayError("overloaded", {
    message:
      "The large requests that are being answered at the same time, with this key or from this network, or in all, take too much memory.",
    hint: "Send fewer large requests at the same time.",
    retryAfter: randomRetryAfter(),
  });

const preemptedError = (): GatewayError =>
  new GatewayError("overloaded", {
    message:
      "The request was given up before it had arrived: others need room, of which requests with this key, or from this network, have most.",
    hint: "Send fewer large requests at the same time, and faster.",
    retryAfter: randomRetryAfter(),
  });

/**
 * Returns the error for a request whose body is given up.
 * @param exceeded the limit that it would exceed with the bytes that have arrived
 * @param hint what the client can do
 */
export const noRoomError = (exceeded: keyof BufferLimits, hint?: string): GatewayError =>
  exceeded === "perCaller"
    ? new GatewayError("rate_limit_exceeded", {
        message:
          "The requests that arrive at the same time with this key, or from this network, are too large together.",
        hint: hint ?? "Send fewer large requests at the same time.",
        ...{ limit: "memory", retryAfter: randomRetryAfter() },
      })
    : new GatewayError("overloaded", {
        message: "The requests that arrive at the same time are too large together.",
        ...(hint !== undefined && { hint }),
        retryAfter: randomRetryAfter(),
      });
