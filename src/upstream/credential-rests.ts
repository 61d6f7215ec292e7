import type { Credential } from "../core/marketplace.ts";

/** Milliseconds for which a credential rests that a provider does not accept; twice as long each time. */
const FIRST = 30_000;
const LONGEST = 300_000;
/** Others are not told of a rest that is only so many milliseconds longer: each of many answers may ask for some. */
const STEP = 100;

/** How long a credential is not shown, in milliseconds. */
export interface CredentialRest {
  until: number;
  /** How long it rests the next time, if it is not accepted again; 0: it was only asked to wait. */
  next: number;
}

/** Credentials that are not shown for a time: because a provider refused them, or asked to wait. */
export class CredentialRests {
  private readonly rests = new Map<Credential, CredentialRest>();
  /** Until when others have heard that one waits. */
  private readonly told = new WeakMap<Credential, number>();

  /** @param moved told whenever a credential rests for another time than before */
  constructor(private readonly moved: (credential: Credential) => void = () => {}) {}

  /** undefined: it does not rest. */
  of(credential: Credential): Readonly<CredentialRest> | undefined {
    return this.rests.get(credential);
  }

  /** What another process has found out. */
  learn(credential: Credential, rest: CredentialRest | undefined): void {
    if (rest) this.rests.set(credential, rest);
    else this.rests.delete(credential);
  }

  /** When it may be shown again; 0: at any time. */
  until(credential: Credential): number {
    return this.rests.size === 0 ? 0 : (this.rests.get(credential)?.until ?? 0);
  }

  /** The provider wants it to wait. */
  cool(credential: Credential, until: number): void {
    const rest = this.rests.get(credential) ?? { until: 0, next: 0 };
    rest.until = Math.max(rest.until, until);
    this.rests.set(credential, rest);
    const told = this.told.get(credential) ?? 0;
    if (rest.until < told + STEP) return;
    this.told.set(credential, rest.until);
    this.moved(credential);
  }

  /** Somebody wants all of them tried at once. One that was not accepted counts as such until it is. */
  hurry(now: number): void {
    for (const [credential, rest] of this.rests) {
      if (rest.next === 0) this.rests.delete(credential);
      else rest.until = now;
      // A wait that begins now is news, however long the one was that ends.
      this.told.delete(credential);
      this.moved(credential);
    }
  }

  /** The provider does not accept it. @returns true when that is news */
  refuse(credential: Credential, now: number): boolean {
    const { next = 0 } = this.rests.get(credential) ?? {};
    const time = next || FIRST;
    this.rests.set(credential, { until: now + time, next: Math.min(2 * time, LONGEST) });
    this.moved(credential);
    return next === 0;
  }

  /** It is shown now: where it was not accepted before, nobody else shows it until the answer is there. */
  show(credential: Credential, now: number): void {
    if (this.rests.size === 0) return;
    const rest = this.rests.get(credential);
    if (!rest || rest.next === 0) return;
    rest.until = Math.max(rest.until, now + FIRST);
    this.moved(credential);
  }

  /** The provider accepts it. @returns true when it did not before */
  accept(credential: Credential, now: number): boolean {
    if (this.rests.size === 0) return false;
    const rest = this.rests.get(credential);
    if (!rest || (rest.next === 0 && rest.until > now)) return false;
    this.rests.delete(credential);
    this.moved(credential);
    return rest.next > 0;
  }
}
