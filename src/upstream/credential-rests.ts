import type { Credential } from "../core/marketplace.ts";

/** Milliseconds for which a credential rests that a provider does not accept; twice as long each time. */
const FIRST = 30_000;
const LONGEST = 300_000;
/** Others are not told of a rest that is only so many milliseconds longer: each of many answers may ask for some. */
const STEP = 100;

/** How long a credential is not shown, in milliseconds. */
interface CredentialRest {
  until: number;
  /** How long it rests the next time, if it is not accepted again; 0: it was only asked to wait. */
  next: number;
  /** For whom alone it rests, as nobody else was refused, and nobody accepted since; undefined: for all. */
  by?: string | undefined;
  /** Who asks whether one that rests for all is accepted again. */
  trial?: string | undefined;
  /** It has rested for all since it was accepted last. */
  wide?: boolean;
}

/** That a credential rests for one caller, or for all: told once. */
export type RestNews = "caller" | "all";

/**
 * Credentials that are not shown for a time: because a provider refused them, or asked to wait. A refusal may be about what one
 * caller asks, so it counts for that caller alone until another one is refused too (docs/decisions/0035).
 */
export class CredentialRests {
  private readonly rests = new Map<Credential, CredentialRest>();
  /** Until when others have heard that one waits. */
  private readonly told = new WeakMap<Credential, number>();

  /** @param moved told whenever a credential rests for another time than before */
  constructor(private readonly moved: (credential: Credential) => void = () => {}) {}

  /** undefined: it does not rest for anybody. */
  of(credential: Credential): Readonly<CredentialRest> | undefined {
    return this.rests.get(credential);
  }

  /** What another process has found out. */
  learn(credential: Credential, rest: CredentialRest | undefined): void {
    if (!rest) {
      this.rests.delete(credential);
      return;
    }
    const wide = this.rests.get(credential)?.wide === true || (rest.next > 0 && rest.by === undefined);
    this.rests.set(credential, { ...rest, wide });
  }

  /** When it may be shown again for a caller; 0: at any time. */
  until(credential: Credential, caller?: string): number {
    return this.rests.size === 0 ? 0 : (this.binding(credential, caller)?.until ?? 0);
  }

  /** Whether it was not accepted the last time, as far as that is a caller's matter. */
  refused(credential: Credential, caller?: string): boolean {
    return (this.binding(credential, caller)?.next ?? 0) > 0;
  }

  /** The rest that holds for a caller. */
  private binding(credential: Credential, caller: string | undefined): CredentialRest | undefined {
    const rest = this.rests.get(credential);
    return rest?.by === undefined || rest.by === caller ? rest : undefined;
  }

  /** The provider wants it to wait. */
  cool(credential: Credential, until: number): void {
    // A wait is for all, and who is told to wait is known.
    const rest = this.binding(credential, undefined) ?? { until: 0, next: 0 };
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

  /**
   * The provider does not accept it.
   * @param caller whose request that was; left out: it is no caller's matter
   * @returns for whom it rests, when that is news
   */
  refuse(credential: Credential, now: number, caller?: string): RestNews | undefined {
    const rest = this.rests.get(credential);
    const { next = 0, by, wide = false } = rest ?? {};
    // What has rested for all and is refused again is judged anew.
    const anew = !rest || next === 0 || rest.trial === caller || (by === undefined && rest.until <= now);
    const alone = caller !== undefined && (anew || by === caller);
    if (alone && rest && next === 0 && rest.until > now) return undefined;
    // How long it has rested for one says nothing of how long it should for all.
    const time = (alone || wide ? next : 0) || FIRST;
    this.rests.set(credential, {
      until: now + time,
      next: Math.min(2 * time, LONGEST),
      by: alone ? caller : undefined,
      wide: wide || !alone,
    });
    this.moved(credential);
    if (alone) return next === 0 ? "caller" : undefined;
    return wide ? undefined : "all";
  }

  /** It is shown now: where it was not accepted before, nobody else shows it until the answer is there. */
  show(credential: Credential, now: number, caller?: string): void {
    if (this.rests.size === 0) return;
    const rest = this.binding(credential, caller);
    if (!rest || rest.next === 0) return;
    if (rest.by === undefined && rest.until <= now) rest.trial = caller;
    rest.until = Math.max(rest.until, now + FIRST);
    this.moved(credential);
  }

  /** The provider accepts it, whoever was refused. @returns true when it did not before, as far as that is the caller's matter */
  accept(credential: Credential, now: number, caller?: string): boolean {
    if (this.rests.size === 0) return false;
    const rest = this.rests.get(credential);
    if (!rest || (rest.next === 0 && rest.until > now)) return false;
    this.rests.delete(credential);
    this.moved(credential);
    return rest.next > 0 && (rest.wide === true || rest.by === undefined || rest.by === caller);
  }
}
