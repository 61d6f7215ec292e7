import type { Credential } from "../core/marketplace.ts";

/** Milliseconds for which a refused credential rests; doubled each time. */
const FIRST = 30_000;
const LONGEST = 300_000;
/**
 * Milliseconds by which a rest must grow before other processes are notified: many responses in a row may each ask for a wait.
 */
const STEP = 100;

/** The longest wait in milliseconds that all callers observe because of one of them: vendors limit by the minute. */
const SHORT_WAIT = 60_000;

/** A period in which a credential is not used, in milliseconds. */
interface CredentialRest {
  until: number;
  /** Duration of the next rest, if the credential is not accepted by then; 0: the provider only asked for a wait. */
  next: number;
  /** The only caller for whom it rests, while nobody else was refused and nobody was accepted; undefined: it rests for all. */
  by?: string | undefined;
  /** The caller whose request tests whether a credential that rests for all is accepted again. */
  trial?: string | undefined;
  /** Whether it has rested for all since it was last accepted. */
  wide?: boolean;
  /** The caller whose request last got a long wait, and until when it lasts for that caller. */
  long?: { readonly caller: string; readonly until: number };
}

/** A new rest of a credential, for one caller or for all; reported once, for the log. */
export type RestNews = "caller" | "all";

/**
 * Credentials that are not used for a time, because a provider refused them or asked for a wait. A refusal may be about what one
 * caller requests, so it counts for that caller alone until another one is refused too (docs/decisions/0035).
 */
export class CredentialRests {
  private readonly rests = new Map<Credential, CredentialRest>();
  /** Time until which other processes know that a credential waits. */
  private readonly told = new WeakMap<Credential, number>();

  /** @param moved called whenever the rest of a credential changes */
  constructor(private readonly moved: (credential: Credential) => void = () => {}) {}

  /** Returns undefined when it does not rest for anybody. */
  of(credential: Credential): Readonly<CredentialRest> | undefined {
    return this.rests.get(credential);
  }

  /** Applies what another process has found. */
  learn(credential: Credential, rest: CredentialRest | undefined): void {
    if (!rest) {
      this.rests.delete(credential);
      return;
    }
    const wide = this.rests.get(credential)?.wide === true || (rest.next > 0 && rest.by === undefined);
    this.rests.set(credential, { ...rest, wide });
  }

  /** Returns the time from which a caller may use it; 0: any time. */
  until(credential: Credential, caller?: string): number {
    const rest = this.rests.size === 0 ? undefined : this.binding(credential, caller);
    if (!rest) return 0;
    return rest.long?.caller === caller ? Math.max(rest.until, rest.long?.until ?? 0) : rest.until;
  }

  /** Reports whether it was refused the last time, as far as that concerns a caller. */
  refused(credential: Credential, caller?: string): boolean {
    return (this.binding(credential, caller)?.next ?? 0) > 0;
  }

  /** Returns the rest that applies to a caller. */
  private binding(credential: Credential, caller: string | undefined): CredentialRest | undefined {
    const rest = this.rests.get(credential);
    return rest?.by === undefined || rest.by === caller ? rest : undefined;
  }

  /**
   * Records that the provider asked for a wait. It applies to all callers; a long one to its caller alone, until a second caller
   * gets one: a single one could otherwise keep the credential from all others for an hour.
   * @param caller whose request it was; absent: no caller's matter
   */
  cool(credential: Credential, now: number, wait: number, caller?: string): void {
    // It replaces a rest that applies to one caller alone.
    const rest = this.binding(credential, undefined) ?? { until: 0, next: 0 };
    const { long } = rest;
    const second = long !== undefined && long.caller !== caller && long.until > now;
    if (caller !== undefined && wait > SHORT_WAIT) rest.long = { caller, until: now + wait };
    rest.until = Math.max(rest.until, now + (second || caller === undefined ? wait : Math.min(wait, SHORT_WAIT)));
    this.rests.set(credential, rest);
    const told = this.told.get(credential) ?? 0;
    if (rest.until < told + STEP) return;
    this.told.set(credential, rest.until);
    this.moved(credential);
  }

  /** Ends all rests for an operator. A refused credential still counts as refused until it is accepted. */
  hurry(now: number): void {
    for (const [credential, rest] of this.rests) {
      if (rest.next === 0) this.rests.delete(credential);
      else {
        rest.until = now;
        delete rest.long;
      }
      // A wait that begins now is news, however long the ended one was.
      this.told.delete(credential);
      this.moved(credential);
    }
  }

  /**
   * Records that the provider refused it.
   * @param caller whose request it was; absent: no caller's matter
   * @returns for whom it rests, when that is news
   */
  refuse(credential: Credential, now: number, caller?: string): RestNews | undefined {
    const rest = this.rests.get(credential);
    const { next = 0, by, wide = false } = rest ?? {};
    // A credential that has rested for all and is refused again is judged from the start.
    const anew = !rest || next === 0 || rest.trial === caller || (by === undefined && rest.until <= now);
    const alone = caller !== undefined && (anew || by === caller);
    if (alone && rest && next === 0 && rest.until > now) return undefined;
    // The duration of a rest for one caller does not carry over to a rest for all.
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

  /** Records that it is about to be used. After a refusal no other request uses it until this one has a response. */
  show(credential: Credential, now: number, caller?: string): void {
    if (this.rests.size === 0) return;
    const rest = this.binding(credential, caller);
    if (!rest || rest.next === 0) return;
    if (rest.by === undefined && rest.until <= now) rest.trial = caller;
    rest.until = Math.max(rest.until, now + FIRST);
    this.moved(credential);
  }

  /**
   * Records that the provider accepted it, which ends the rest for every caller.
   * @returns true when it was refused before, as far as that concerns the caller
   */
  accept(credential: Credential, now: number, caller?: string): boolean {
    if (this.rests.size === 0) return false;
    const rest = this.rests.get(credential);
    if (!rest || (rest.next === 0 && rest.until > now)) return false;
    this.rests.delete(credential);
    this.moved(credential);
    return rest.next > 0 && (rest.wide === true || rest.by === undefined || rest.by === caller);
  }
}
