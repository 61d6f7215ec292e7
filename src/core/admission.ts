import { GatewayError } from "./errors.ts";

export interface AdmissionLimits {
  /** Exchanges at a time; 0: no limit. */
  readonly concurrency: number;
  /** Of one caller; 0: no limit. */
  readonly perKey: number;
  /** Exchanges that may wait. */
  readonly queue: number;
  /** Milliseconds that one may wait; 0: none waits. */
  readonly wait: number;
}

/** What wants to come in, and comes in at most once. */
export interface Applicant {
  readonly caller?: { readonly id: string } | undefined;
  /** Of the client; callers without a key are told apart by it. */
  readonly address: string;
  /** Set while it is inside. */
  admitted?: boolean;
  /** Runs `leave` when it wants no more, at once if so; the answer takes it back. */
  onAbort(leave: () => void): () => void;
}

/** Callers of an admission: what they have inside, and who waits. */
interface Party {
  inside: number;
  readonly waiting: WaitingApplicant[];
}

interface WaitingApplicant {
  readonly enter: () => void;
  readonly giveUp: (error: GatewayError) => void;
}

/**
 * So many exchanges at a time. What finds no room waits, each caller in a queue of its own, and whoever has the least
 * inside goes next: a caller that asks for too much waits behind itself, and costs the others nothing.
 */
export class Admission {
  private inside = 0;
  private waiting = 0;
  private readonly parties = new Map<string, Party>();

  /** @param what is full, for the message, like "The gateway" */
  constructor(
    private readonly limits: AdmissionLimits,
    private readonly what: string,
  ) {}

  /** Whether there is room for somebody new. */
  get free(): boolean {
    const { concurrency } = this.limits;
    return concurrency === 0 || this.inside < concurrency;
  }

  /** Whether nobody is inside, and nobody waits. */
  get empty(): boolean {
    return this.inside + this.waiting === 0;
  }

  /**
   * Lets an exchange in: now, or when the promise settles.
   * @throws GatewayError `overloaded` when too many wait, or it has waited too long; `client_gone`
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

  /** It has ended; one that is not inside changes nothing. */
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

  /** Whether one of a caller's exchanges could come in at once. */
  private roomFor(key: string): boolean {
    const { perKey } = this.limits;
    if (!this.free) return false;
    return perKey === 0 || (this.parties.get(key)?.inside ?? 0) < perKey;
  }

  /** Where the queue is full, whoever has most in it gives up the last of that to somebody who has less. */
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

  /** Lets in whoever waits and has the least inside; of several, who has waited longest. */
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
      // Last in line, so that callers with as much inside take turns.
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

/** A key's id has no point in it, an address has one or a colon. */
const keyOf = ({ caller, address }: Applicant): string => caller?.id ?? address;

/** Seconds until asking again makes sense: not the same for everybody, or all would come back at once. */
export const soon = (): number => 1 + Math.round(Math.random() * 2000) / 1000;
