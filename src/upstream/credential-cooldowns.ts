import type { Credential } from "../core/marketplace.ts";

/** Milliseconds of the first cooldown of a refused credential, doubled each time, and of the longest. */
const FIRST_COOLDOWN = 30_000;
const MAX_COOLDOWN = 300_000;
/**
 * Milliseconds by which a cooldown must grow before other processes are notified: many responses in a row may each request a
 * wait.
 */
const MIN_CHANGE = 100;

/** The longest wait in milliseconds that all callers observe because of one of them: vendors limit by the minute. */
const SHORT_WAIT = 60_000;

/** A period in which a credential is not used, in milliseconds. */
interface CredentialCooldown {
  until: number;
  /** Duration of the next cooldown, if the credential is not accepted by then; 0: the provider only requested a wait. */
  nextDuration: number;
  /** The only caller it applies to, while nobody else was refused and nobody was accepted; undefined: it applies to all. */
  onlyCaller?: string | undefined;
  /** The caller whose request tests whether it is accepted again. */
  trialCaller?: string | undefined;
  /** Whether it has been in cooldown for all since it was last accepted. */
  wasForAll?: boolean;
  /** The caller whose request last got a long wait, and until when it lasts for that caller. */
  longWait?: { readonly caller: string; readonly until: number };
  /** The end of a wait that other processes know. */
  announcedUntil?: number;
}

/** The scope of a new cooldown: one caller or all; reported once, for the log. */
export type CooldownScope = "caller" | "all";

/**
 * Credentials that are not used for a time, because a provider refused them or requested a wait. A refusal may be about what one
 * caller requests, so it counts for that caller alone until another one is refused too (docs/decisions/0035).
 */
export class CredentialCooldowns {
  private readonly cooldowns = new Map<Credential, CredentialCooldown>();

  /** @param onChange called whenever the cooldown of a credential changes */
  constructor(private readonly onChange: (credential: Credential) => void = () => {}) {}

  /** Returns the cooldown of a credential; undefined: there is none for anybody. */
  get(credential: Credential): Readonly<CredentialCooldown> | undefined {
    return this.cooldowns.get(credential);
  }

  /** Applies what another process has found. */
  applyRemote(credential: Credential, cooldown: CredentialCooldown | undefined): void {
    if (!cooldown) {
      this.cooldowns.delete(credential);
      return;
    }
    const known = this.cooldowns.get(credential);
    const wasForAll = known?.wasForAll === true || (cooldown.nextDuration > 0 && cooldown.onlyCaller === undefined);
    const longWait = known?.longWait;
    this.cooldowns.set(credential, {
      ...{ ...cooldown, wasForAll, announcedUntil: cooldown.until },
      ...(longWait && { longWait }),
    });
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

  /** Returns the cooldown that applies to a caller. */
  private cooldownFor(credential: Credential, caller: string | undefined): CredentialCooldown | undefined {
    const cooldown = this.cooldowns.get(credential);
    return cooldown?.onlyCaller === undefined || cooldown.onlyCaller === caller ? cooldown : undefined;
  }

  /**
   * Records that the provider requested a wait. It applies to all callers; a long one to its caller alone, until a second caller
   * gets one: a single one could otherwise keep the credential from all others for an hour.
   * @param caller whose request it was; absent: no caller's matter
   */
  recordWait(credential: Credential, now: number, wait: number, caller?: string): void {
    // It replaces a cooldown that applies to one caller alone.
    const cooldown = this.cooldownFor(credential, undefined) ?? { until: 0, nextDuration: 0 };
    const { longWait } = cooldown;
    const isSecondCaller = longWait !== undefined && longWait.caller !== caller && longWait.until > now;
    if (caller !== undefined && wait > SHORT_WAIT) cooldown.longWait = { caller, until: now + wait };
    cooldown.until = Math.max(
      cooldown.until,
      now + (isSecondCaller || caller === undefined ? wait : Math.min(wait, SHORT_WAIT)),
    );
    this.cooldowns.set(credential, cooldown);
    if (cooldown.until < (cooldown.announcedUntil ?? 0) + MIN_CHANGE) return;
    cooldown.announcedUntil = cooldown.until;
    this.onChange(credential);
  }

  /** Ends all cooldowns for an operator. A refused credential still counts as refused until it is accepted. */
  endAll(now: number): void {
    for (const [credential, cooldown] of this.cooldowns) {
      if (cooldown.nextDuration === 0) this.cooldowns.delete(credential);
      else {
        cooldown.until = now;
        delete cooldown.longWait;
        // A wait that begins now is news, however long the ended one was.
        delete cooldown.announcedUntil;
      }
      this.onChange(credential);
    }
  }

  /**
   * Records that the provider refused it.
   * @param caller whose request it was; absent: no caller's matter
   * @returns the scope of the cooldown, when that is news
   */
  recordRefusal(credential: Credential, now: number, caller?: string): CooldownScope | undefined {
    const cooldown = this.cooldowns.get(credential);
    const { nextDuration = 0, onlyCaller, wasForAll = false } = cooldown ?? {};
    // A credential that has been in cooldown for all and is refused again is judged from the start.
    const isNew =
      !cooldown ||
      nextDuration === 0 ||
      cooldown.trialCaller === caller ||
      (onlyCaller === undefined && cooldown.until <= now);
    const onlyForCaller = caller !== undefined && (isNew || onlyCaller === caller);
    if (onlyForCaller && cooldown && nextDuration === 0 && cooldown.until > now) return undefined;
    // The duration of a cooldown for one caller does not carry over to one for all.
    const duration = (onlyForCaller || wasForAll ? nextDuration : 0) || FIRST_COOLDOWN;
    this.cooldowns.set(credential, {
      until: now + duration,
      nextDuration: Math.min(2 * duration, MAX_COOLDOWN),
      onlyCaller: onlyForCaller ? caller : undefined,
      wasForAll: wasForAll || !onlyForCaller,
    });
    this.onChange(credential);
    if (onlyForCaller) return nextDuration === 0 ? "caller" : undefined;
    return wasForAll ? undefined : "all";
  }

  /** Records that it is about to be used. After a refusal no other request uses it until this one has a response. */
  recordUse(credential: Credential, now: number, caller?: string): void {
    if (this.cooldowns.size === 0) return;
    const cooldown = this.cooldownFor(credential, caller);
    if (!cooldown || cooldown.nextDuration === 0) return;
    if (cooldown.until <= now) cooldown.trialCaller = caller;
    cooldown.until = Math.max(cooldown.until, now + FIRST_COOLDOWN);
    this.onChange(credential);
  }

  /**
   * Records that the provider accepted it, which ends the cooldown for every caller.
   * @returns true when it was refused before, as far as that concerns the caller
   */
  recordAcceptance(credential: Credential, now: number, caller?: string): boolean {
    if (this.cooldowns.size === 0) return false;
    const cooldown = this.cooldowns.get(credential);
    if (!cooldown || (cooldown.nextDuration === 0 && cooldown.until > now)) return false;
    this.cooldowns.delete(credential);
    this.onChange(credential);
    return cooldown.nextDuration > 0 && (cooldown.wasForAll === true || cooldown.onlyCaller === caller);
  }
}
