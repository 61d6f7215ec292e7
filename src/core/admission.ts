import { GatewayError } from "./errors.ts";

/** How many exchanges run at the same time, and how many wait for that. */
export interface AdmissionLimits {
  /** Concurrent exchanges; 0: no limit. */
  readonly concurrency: number;
  /** Concurrent exchanges of one caller; 0: no limit. */
  readonly perKey: number;
  /** Maximum number of queued exchanges. */
  readonly queue: number;
  /** Maximum milliseconds in the queue; 0: no queueing. */
  readonly wait: number;
}

/** An exchange that asks for admission, and is admitted at most once. */
export interface AdmissionRequest {
  readonly caller?: { readonly id: string } | undefined;
  /** The client's address; it identifies callers without a key. */
  readonly address: string;
  /** The caller for whom it counts while it is admitted: a plugin may set another one meanwhile. */
  admittedAs?: string | undefined;
  /** Runs `listener` when the request is aborted, at once if it already has. Returns a function that unsubscribes. */
  onAbort(listener: () => void): () => void;
}

/** A caller's state: the number of its admitted exchanges, and its queue. */
interface CallerQueue {
  active: number;
  readonly queued: QueuedRequest[];
}

interface QueuedRequest {
  readonly admit: () => void;
  readonly reject: (error: GatewayError) => void;
}

/** Callers that are kept without an exchange: V8 allocates a new table each time that the last entry of a `Map` is deleted. */
const MAX_IDLE_CALLERS = 64;

/**
 * Limits concurrent exchanges. Those beyond the limit wait in one queue per caller, and the caller with the fewest running
 * exchanges is served next: a caller that sends too many delays only itself.
 */
export class Admission {
  private active = 0;
  private queued = 0;
  private readonly callers = new Map<string, CallerQueue>();

  /** @param what the limited resource, for the message, like "The gateway" */
  constructor(
    private readonly limits: AdmissionLimits,
    private readonly what: string,
  ) {}

  /** Whether another exchange can be admitted. */
  get hasCapacity(): boolean {
    const { concurrency } = this.limits;
    return concurrency === 0 || this.active < concurrency;
  }

  /**
   * Admits an exchange: now, or when the promise resolves.
   * @throws GatewayError `overloaded` when the queue is full, or the wait too long; `client_gone`
   */
  acquire(request: AdmissionRequest): Promise<void> | undefined {
    const key = admissionKey(request);
    if (this.canAdmit(key)) {
      this.markAdmitted(key, this.callerQueue(key), request);
      return undefined;
    }
    const { queue, wait } = this.limits;
    if (wait === 0 || (this.queued >= queue && !this.evictQueued(key))) throw this.overloadedError();
    return this.wait(key, request);
  }

  /** Ends an exchange; has no effect for one that is not admitted. */
  release(request: AdmissionRequest): void {
    const { admittedAs: key } = request;
    if (key === undefined) return;
    request.admittedAs = undefined;
    const caller = this.callerQueue(key);
    this.active--;
    caller.active--;
    this.deleteIfEmpty(key, caller);
    if (this.queued > 0) this.admit();
  }

  /** Reports whether an exchange of a caller could be admitted at once. */
  private canAdmit(key: string): boolean {
    const { perKey } = this.limits;
    if (!this.hasCapacity) return false;
    return perKey === 0 || (this.callers.get(key)?.active ?? 0) < perKey;
  }

  /** Where the queue is full, removes the last queued exchange of the caller with the most, if the new one's caller has fewer. */
  private evictQueued(key: string): boolean {
    const ownLength = this.callers.get(key)?.queued.length ?? 0;
    let most: readonly QueuedRequest[] = [];
    for (const { queued } of this.callers.values()) if (queued.length > most.length) most = queued;
    if (most.length <= ownLength + 1) return false;
    most.at(-1)?.reject(this.overloadedError());
    return true;
  }

  private wait(key: string, request: AdmissionRequest): Promise<void> {
    const caller = this.callerQueue(key);
    return new Promise((resolve, reject) => {
      let unsubscribe = (): void => {};
      const giveUp = (error: GatewayError) => {
        const at = caller.queued.indexOf(queued);
        if (at < 0) return;
        caller.queued.splice(at, 1);
        this.queued--;
        this.deleteIfEmpty(key, caller);
        clearTimeout(timer);
        unsubscribe();
        reject(error);
      };
      const admit = () => {
        this.markAdmitted(key, caller, request);
        clearTimeout(timer);
        unsubscribe();
        resolve();
      };
      const queued: QueuedRequest = { admit, reject: giveUp };
      caller.queued.push(queued);
      this.queued++;
      const timer = setTimeout(() => giveUp(this.overloadedError()), this.limits.wait).unref();
      unsubscribe = request.onAbort(() => giveUp(new GatewayError("client_gone")));
    });
  }

  /**
   * Admits the next queued exchanges: of the caller with the fewest running ones; among equals, of the caller served longest ago.
   */
  private admit(): void {
    for (;;) {
      let next: [key: string, caller: CallerQueue] | undefined;
      for (const entry of this.callers) {
        const [key, { active, queued }] = entry;
        if (queued.length > 0 && (!next || active < next[1].active) && this.canAdmit(key)) next = entry;
      }
      if (!next) return;
      const [key, caller] = next;
      const first = caller.queued.shift();
      this.queued--;
      // Moved to the end, so that callers with equally many take turns.
      this.callers.delete(key);
      this.callers.set(key, caller);
      first?.admit();
    }
  }

  private markAdmitted(key: string, caller: CallerQueue, request: AdmissionRequest): void {
    request.admittedAs = key;
    this.active++;
    caller.active++;
  }

  private callerQueue(key: string): CallerQueue {
    return this.callers.get(key) ?? this.addCaller(key);
  }

  private addCaller(key: string): CallerQueue {
    const caller = { active: 0, queued: [] };
    this.callers.set(key, caller);
    return caller;
  }

  private deleteIfEmpty(key: string, { active, queued }: CallerQueue): void {
    if (active === 0 && queued.length === 0 && this.callers.size > MAX_IDLE_CALLERS) this.callers.delete(key);
  }

  private overloadedError(): GatewayError {
    const message = `${this.what} has as many requests as it can serve at a time.`;
    return new GatewayError("overloaded", { message, retryAfter: randomRetryAfter() });
  }
}

/** Distinct from each other: a key's id contains no point, an address a point or a colon. */
const admissionKey = ({ caller, address }: AdmissionRequest): string => caller?.id ?? address;

/** Returns the seconds until a retry makes sense, randomized so that clients do not all return at once. */
export const randomRetryAfter = (): number => 1 + Math.round(Math.random() * 2000) / 1000;
