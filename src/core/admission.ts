import { GatewayError } from "./errors.ts";

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
export interface Applicant {
  readonly caller?: { readonly id: string } | undefined;
  /** The client's address; it identifies callers without a key. */
  readonly address: string;
  /** Set while it is admitted. */
  admitted?: boolean;
  /** Runs `leave` when the applicant gives up, at once if it already has. Returns a function that unsubscribes. */
  onAbort(leave: () => void): () => void;
}

/** A caller's state: the number of its admitted exchanges, and its queue. */
interface Party {
  inside: number;
  readonly waiting: WaitingApplicant[];
}

interface WaitingApplicant {
  readonly enter: () => void;
  readonly giveUp: (error: GatewayError) => void;
}

/**
 * Limits concurrent exchanges. Those beyond the limit wait in one queue per caller, and the caller with the fewest running
 * exchanges is served next: a caller that sends too many delays only itself.
 */
export class Admission {
  private inside = 0;
  private waiting = 0;
  private readonly parties = new Map<string, Party>();

  /** @param what the limited resource, for the message, like "The gateway" */
  constructor(
    private readonly limits: AdmissionLimits,
    private readonly what: string,
  ) {}

  /** Whether another exchange can be admitted. */
  get free(): boolean {
    const { concurrency } = this.limits;
    return concurrency === 0 || this.inside < concurrency;
  }

  /** Whether no exchange is admitted or queued. */
  get empty(): boolean {
    return this.inside + this.waiting === 0;
  }

  /**
   * Admits an exchange: now, or when the promise resolves.
   * @throws GatewayError `overloaded` when the queue is full, or the wait too long; `client_gone`
   */
  enter(applicant: Applicant): Promise<void> | undefined {
    const key = keyOf(applicant);
    if (this.roomFor(key)) {
      this.take(this.party(key), applicant);
      return undefined;
    }
    const { queue, wait } = this.limits;
    if (wait === 0 || (this.waiting >= queue && !this.makeRoom(key))) throw this.full();
    return this.wait(key, applicant);
  }

  /** Ends an exchange; has no effect for one that is not admitted. */
  leave(applicant: Applicant): void {
    if (!applicant.admitted) return;
    applicant.admitted = false;
    const key = keyOf(applicant);
    const party = this.party(key);
    this.inside--;
    party.inside--;
    this.forget(key, party);
    if (this.waiting > 0) this.admit();
  }

  /** Reports whether an exchange of a caller could be admitted at once. */
  private roomFor(key: string): boolean {
    const { perKey } = this.limits;
    if (!this.free) return false;
    return perKey === 0 || (this.parties.get(key)?.inside ?? 0) < perKey;
  }

  /** Where the queue is full, removes the last queued exchange of the caller with the most, if the new one's caller has fewer. */
  private makeRoom(key: string): boolean {
    const own = this.parties.get(key)?.waiting.length ?? 0;
    let most: readonly WaitingApplicant[] = [];
    for (const { waiting } of this.parties.values()) if (waiting.length > most.length) most = waiting;
    if (most.length <= own + 1) return false;
    most.at(-1)?.giveUp(this.full());
    return true;
  }

  private wait(key: string, applicant: Applicant): Promise<void> {
    const party = this.party(key);
    return new Promise((resolve, reject) => {
      let unsubscribe = (): void => {};
      const giveUp = (error: GatewayError) => {
        const at = party.waiting.indexOf(waiting);
        if (at < 0) return;
        party.waiting.splice(at, 1);
        this.waiting--;
        this.forget(key, party);
        clearTimeout(timer);
        unsubscribe();
        reject(error);
      };
      const enter = () => {
        this.take(party, applicant);
        clearTimeout(timer);
        unsubscribe();
        resolve();
      };
      const waiting: WaitingApplicant = { enter, giveUp };
      party.waiting.push(waiting);
      this.waiting++;
      const timer = setTimeout(() => giveUp(this.full()), this.limits.wait).unref();
      unsubscribe = applicant.onAbort(() => giveUp(new GatewayError("client_gone")));
    });
  }

  /**
   * Admits the next queued exchanges: of the caller with the fewest running ones; among equals, of the caller served longest ago.
   */
  private admit(): void {
    for (;;) {
      let next: [key: string, party: Party] | undefined;
      for (const entry of this.parties) {
        const [key, { inside, waiting }] = entry;
        if (waiting.length > 0 && (!next || inside < next[1].inside) && this.roomFor(key)) next = entry;
      }
      if (!next) return;
      const [key, party] = next;
      const first = party.waiting.shift();
      this.waiting--;
      // Moved to the end, so that callers with equally many take turns.
      this.parties.delete(key);
      this.parties.set(key, party);
      first?.enter();
    }
  }

  private take(party: Party, applicant: Applicant): void {
    applicant.admitted = true;
    this.inside++;
    party.inside++;
  }

  private party(key: string): Party {
    const known = this.parties.get(key);
    if (known) return known;
    const party: Party = { inside: 0, waiting: [] };
    this.parties.set(key, party);
    return party;
  }

  private forget(key: string, { inside, waiting }: Party): void {
    if (inside === 0 && waiting.length === 0) this.parties.delete(key);
  }

  private full(): GatewayError {
    const message = `${this.what} has as many requests as it can serve at a time.`;
    return new GatewayError("overloaded", { message, retryAfter: soon() });
  }
}

/** Distinct from each other: a key's id contains no point, an address a point or a colon. */
const keyOf = ({ caller, address }: Applicant): string => caller?.id ?? address;

/** Returns the seconds until a retry makes sense, randomized so that clients do not all return at once. */
export const soon = (): number => 1 + Math.round(Math.random() * 2000) / 1000;
