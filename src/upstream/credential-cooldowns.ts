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
interface CredentialCooldown {
  until: number;
  /** Duration of the next rest, if the credential is not accepted by then; 0: the provider only asked for a wait. */
  nextDuration: number;
  /** The only caller for whom it rests, while nobody else was refused and nobody was accepted; undefined: it rests for all. */
  onlyCaller?: string | undefined;
  /** The caller whose request tests whether a credential that rests for all is accepted again. */
  trialCaller?: string | undefined;
  /** Whether it has rested for all since it was last accepted. */
  wasForAll?: boolean;
  /** The caller whose request last got a long wait, and until when it lasts for that caller. */
  longWait?: { readonly caller: string; readonly until: number };
}

/** A new rest of a credential, for one caller or for all; reported once, for the log. */
export type CooldownScope = "caller" | "all";

/**
 * Credentials that are not used for a time, because a provider refused them or asked for a wait. A refusal may be about what one
 * caller requests, so it counts for that caller alone until another one is refused too (docs/decisions/0035).
 */
export class CredentialCooldowns {
  private readonly cooldowns = new Map<Credential, CredentialCooldown>();
  /** Time until which other processes know that a credential waits. */
  private readonly announcedUntil = new WeakMap<Credential, number>();

  /** @param onChange called whenever the rest of a credential changes */
  constructor(private readonly onChange: (credential: Credential) => void = () => {}) {}

  /** Returns undefined when it does not rest for anybody. */
  get(credential: Credential): Readonly<CredentialCooldown> | undefined {
    return this.cooldowns.get(credential);
  }

  /** Applies what another process has found. */
  applyRemote(credential: Credential, cooldown: CredentialCooldown | undefined): void {
    if (!cooldown) {
      this.cooldowns.delete(credential);
      return;
    }
    const wasForAll =
      this.cooldowns.get(credential)?.wasForAll === true ||
      (cooldown.nextDuration > 0 && cooldown.onlyCaller === undefined);
    this.cooldowns.set(credential, { ...cooldown, wasForAll });
  }

  /** Returns the time from which a caller may use it; 0: any time. */
  usableAt(credential: Credential, caller?: string): number {
    const cooldown = this.cooldowns.size === 0 ? undefined : this.cooldownFor(credential, caller);
    if (!cooldown) return 0;
    return cooldown.longWait?.caller === caller
      ? Math.max(cooldown.until, cooldown.longWait?.until ?? 0)
      : cooldown.until;
  }

  /** Reports whether it was refused the last time, as far as that concerns a caller. */
  isRefused(credential: Credential, caller?: string): boolean {
    return (this.cooldownFor(credential, caller)?.nextDuration ?? 0) > 0;
  }

  /** Returns the rest that applies to a caller. */
  private cooldownFor(credential: Credential, caller: string | undefined): CredentialCooldown | undefined {
    const cooldown = this.cooldowns.get(credential);
    return cooldown?.onlyCaller === undefined || cooldown.onlyCaller === caller ? cooldown : undefined;
  }

  /**
   * Records that the provider asked for a wait. It applies to all callers; a long one to its caller alone, until a second caller
   * gets one: a single one could otherwise keep the credential from all others for an hour.
   * @param caller whose request it was; absent: no caller's matter
   */
  recordWait(credential: Credential, now: number, wait: number, caller?: string): void {
    // It replaces a rest that applies to one caller alone.
    const cooldown = this.cooldownFor(credential, undefined) ?? { until: 0, nextDuration: 0 };
    const { longWait } = cooldown;
    const second = longWait !== undefined && longWait.caller !== caller && longWait.until > now;
    if (caller !== undefined && wait > SHORT_WAIT) cooldown.longWait = { caller, until: now + wait };
    cooldown.until = Math.max(
      cooldown.until,
      now + (second || caller === undefined ? wait : Math.min(wait, SHORT_WAIT)),
    );
    this.cooldowns.set(credential, cooldown);
    const told = this.announcedUntil.get(credential) ?? 0;
    if (cooldown.until < told + STEP) return;
    this.announcedUntil.set(credential, cooldown.until);
    this.onChange(credential);
  }

  /** Ends all rests for an operator. A refused credential still counts as refused until it is accepted. */
  endAll(now: number): void {
    for (const [credential, cooldown] of this.cooldowns) {
      if (cooldown.nextDuration === 0) this.cooldowns.delete(credential);
      else {
        cooldown.until = now;
        delete cooldown.longWait;
      }
      // A wait that begins now is news, however long the ended one was.
      this.announcedUntil.delete(credential);
      this.onChange(credential);
    }
  }

  /**
   * Records that the provider refused it.
   * @param caller whose request it was; absent: no caller's matter
   * @returns for whom it rests, when that is news
   */
  recordRefusal(credential: Credential, now: number, caller?: string): CooldownScope | undefined {
    const cooldown = this.cooldowns.get(credential);
    const { nextDuration = 0, onlyCaller, wasForAll = false } = cooldown ?? {};
    // A credential that has rested for all and is refused again is judged from the start.
    const anew =
      !cooldown ||
      nextDuration === 0 ||
      cooldown.trialCaller === caller ||
      (onlyCaller === undefined && cooldown.until <= now);
    const alone = caller !== undefined && (anew || onlyCaller === caller);
    if (alone && cooldown && nextDuration === 0 && cooldown.until > now) return undefined;
    // The duration of a rest for one caller does not carry over to a rest for all.
    const time = (alone || wasForAll ? nextDuration : 0) || FIRST;
    this.cooldowns.set(credential, {
      until: now + time,
      nextDuration: Math.min(2 * time, LONGEST),
      onlyCaller: alone ? caller : undefined,
      wasForAll: wasForAll || !alone,
    });
    this.onChange(credential);
    if (alone) return nextDuration === 0 ? "caller" : undefined;
    return wasForAll ? undefined : "all";
  }

  /** Records that it is about to be used. After a refusal no other request uses it until this one has a response. */
  recordUse(credential: Credential, now: number, caller?: string): void {
    if (this.cooldowns.size === 0) return;
    const cooldown = this.cooldownFor(credential, caller);
    if (!cooldown || cooldown.nextDuration === 0) return;
    if (cooldown.onlyCaller === undefined && cooldown.until <= now) cooldown.trialCaller = caller;
    cooldown.until = Math.max(cooldown.until, now + FIRST);
    this.onChange(credential);
  }

  /**
   * Records that the provider accepted it, which ends the rest for every caller.
   * @returns true when it was refused before, as far as that concerns the caller
   */
  recordAcceptance(credential: Credential, now: number, caller?: string): boolean {
    if (this.cooldowns.size === 0) return false;
    const cooldown = this.cooldowns.get(credential);
    if (!cooldown || (cooldown.nextDuration === 0 && cooldown.until > now)) return false;
    this.cooldowns.delete(credential);
    this.onChange(credential);
    return (
      cooldown.nextDuration > 0 &&
      (cooldown.wasForAll === true || cooldown.onlyCaller === undefined || cooldown.onlyCaller === caller)
    );
  }
}
