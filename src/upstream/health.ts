import { hash } from "node:crypto";
import type { Attempt } from "../core/attempt.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Log } from "../core/log.ts";
import { type Credential, Marketplace, type Target } from "../core/marketplace.ts";
import { type ConversationNews, ConversationTargets } from "./conversation-targets.ts";
import { type CooldownScope, CredentialCooldowns } from "./credential-cooldowns.ts";
import { type TargetCondition, TargetHealth } from "./target-health.ts";

/** Milliseconds of a credential's cooldown after a 429: without a retry-after, at least, and at most. */
const DEFAULT_COOLDOWN = 1000;
const MIN_COOLDOWN = 100;
const MAX_COOLDOWN = 3_600_000;
/**
 * Maximum milliseconds of a cooldown that {@link Health.isOnlyCoolingDown} ignores. Vendors limit by the minute; a longer one
 * means a spent quota.
 */
const SHORT_COOLDOWN = 60_000;

/** A change of health that a process sends to other processes, as plain JSON. */
export interface HealthNews {
  /** `provider:model`, or the name of a provider alone. */
  readonly about: string;
  /** The label of a credential there; absent: the target itself. */
  readonly credential?: string;
  /**
   * Unix milliseconds until which it is not used; 0: it is used again. Monotonic clocks of processes start at different times.
   */
  readonly until: number;
  /** Milliseconds of the current pause of a target; for a credential, of the next one. */
  readonly time: number;
  /** The only caller the cooldown applies to; absent: it applies to all callers. */
  readonly caller?: string | undefined;
}

/** One target of a provider, or all of them. */
export interface NamedTarget {
  readonly provider: string;
  readonly model?: string | undefined;
}

/** The health of a target and of its provider's credentials there, for the console. */
export interface TargetReport extends Omit<TargetCondition, "state"> {
  /** `off`: an operator has switched off the target or its provider. */
  readonly state: TargetCondition["state"] | "off";
  readonly credentials: readonly CredentialReport[];
}

/** The state of a credential at a target. */
export interface CredentialReport {
  readonly label: string;
  /** `waiting`: after a 429 of the provider. `refused`: the provider does not accept it. */
  readonly state: "ok" | "waiting" | "refused";
  /** Milliseconds until it may be used again. */
  readonly remaining: number;
}

interface ProviderState {
  readonly name: string;
  /** Credentials that the provider does not accept for any model. */
  readonly cooldowns: CredentialCooldowns;
  /** Counter for round-robin over the credentials. */
  nextCredential: number;
  readonly credentials: readonly Credential[];
}

interface TargetState {
  readonly health: TargetHealth;
  /** Credentials that may not use this model, or have to wait. */
  readonly cooldowns: CredentialCooldowns;
  readonly provider: ProviderState;
}

/** Returns when a credential may be used at a target: it may have to wait there, or everywhere. */
const credentialUsableAt = ({ provider, cooldowns }: TargetState, credential: Credential, caller?: string): number =>
  Math.max(provider.cooldowns.usableAt(credential, caller), cooldowns.usableAt(credential, caller));

/**
 * The health of targets and credentials, and which of them are not used for a time. Targets of the same name share their health,
 * even where several models of the marketplace use them. A plugin's constructor may request it.
 */
export class Health {
  private readonly targets = new WeakMap<Target, TargetState>();
  private readonly byName = new Map<string, TargetState>();
  private readonly providers = new Map<string, ProviderState>();
  /** Shared with the previous and the next generation, as their targets share state. */
  private readonly peers: { publish(news: HealthNews): void };
  /** Names of switched-off providers and targets; shared between generations even where these names change or go away. */
  private readonly off: Set<string>;
  /** Shared between generations, so that a reload moves no conversation. */
  private readonly conversations: ConversationTargets;

  /**
   * @param minShare the share of a request's targets that stay in use while none is healthy; 1: none is ever suspended
   * @param clock monotonic milliseconds
   * @param previous the health of the generation before
   * @param isUnchanged whether a provider is unchanged since that generation, so that its recorded health still holds
   */
  constructor(
    private readonly minShare: number,
    private readonly log: Log,
    private readonly clock: () => number = () => performance.now(),
    previous?: Health,
    isUnchanged: (provider: string) => boolean = () => false,
  ) {
    this.peers = previous?.peers ?? { publish: () => {} };
    this.off = previous?.off ?? new Set();
    this.conversations = previous?.conversations ?? new ConversationTargets();
    for (const [name, state] of previous?.providers ?? []) if (isUnchanged(name)) this.providers.set(name, state);
    for (const [name, state] of previous?.byName ?? [])
      if (this.providers.has(state.provider.name)) this.byName.set(name, state);
  }

  /**
   * Sends changes found here to other processes from now on.
   * @param targets whose changes are exchanged from the start; others follow once used
   */
  share(targets: Iterable<Target>, publish: (news: HealthNews) => void): void {
    for (const target of targets) this.stateOf(target);
    this.peers.publish = publish;
  }

  /** Sends the targets chosen here for conversations to other processes from now on. */
  shareConversations(publish: (news: ConversationNews) => void): void {
    this.conversations.publish = publish;
  }

  /** Remembers the target that another process has chosen for a conversation. */
  applyRemoteConversation(news: ConversationNews): void {
    this.conversations.applyRemote(news);
  }

  /** Applies a change that another process has found. */
  applyRemote({ about, credential: label, until, time, caller: onlyCaller }: HealthNews): void {
    const remaining = Math.max(0, until - Date.now());
    const { provider, ...target } = this.byName.get(about) ?? { provider: this.providers.get(about) };
    if (label === undefined) {
      if ("health" in target) target.health.applyRemote({ time: until === 0 ? 0 : time, remaining });
      return;
    }
    const credential = provider?.credentials.find((candidate) => candidate.label === label);
    if (!credential) return;
    const cooldowns = "cooldowns" in target ? target.cooldowns : provider?.cooldowns;
    cooldowns?.applyRemote(
      credential,
      until === 0 ? undefined : { until: this.clock() + remaining, nextDuration: time, onlyCaller },
    );
  }

  /** Ends the pauses of a provider's targets and credentials. @param model one of the provider's; absent: all of them */
  tryNow({ provider, model }: NamedTarget): void {
    const now = this.clock();
    const targetName = model === undefined ? undefined : `${provider}:${model}`;
    for (const [name, { health, cooldowns, provider: owner }] of this.byName) {
      if (owner.name !== provider || (targetName !== undefined && name !== targetName)) continue;
      health.probeNow();
      cooldowns.endAll(now);
    }
    this.providers.get(provider)?.cooldowns.endAll(now);
  }

  /**
   * Switches a provider or a target off or on for the operator; nothing is sent to one that is off.
   * @param name of a provider or a target
   */
  setSwitchedOff(name: string, off: boolean): void {
    if (off) this.off.add(name);
    else this.off.delete(name);
  }

  /** Reports whether exactly this name is switched off. */
  isSwitchedOff(name: string): boolean {
    return this.off.has(name);
  }

  /** Returns the targets that are not switched off. */
  enabled(targets: readonly Target[]): readonly Target[] {
    return this.off.size === 0 ? targets : targets.filter((target) => !this.isOff(target));
  }

  /**
   * Gives an attempt without alternatives its credential.
   * @throws GatewayError no_target where its target is switched off
   */
  admit(attempt: Attempt, exchange: Pick<Exchange, "conversation" | "objectCredential">): void {
    const { target, caller } = attempt;
    if (this.isOff(target)) throw switchedOffError();
    attempt.credential = this.credential(target, exchange.conversation, caller, exchange.objectCredential);
  }

  /**
   * Reports whether a target may be used: it is on, its circuit breaker admits a request, and a credential of its provider is
   * not in cooldown there.
   * @param caller whose request it would be; absent: no particular caller's
   */
  isUsable(target: Target, caller?: string): boolean {
    const state = this.stateOf(target);
    const { credentials } = target.provider;
    if (!state.health.isUsable || this.isOff(target)) return false;
    if (credentials.length === 0) return true;
    const now = this.clock();
    return credentials.some((credential) => credentialUsableAt(state, credential, caller) <= now);
  }

  /** Reports whether a target is healthy but for a short cooldown that its provider requested with a 429. */
  isOnlyCoolingDown(target: Target, caller?: string): boolean {
    const state = this.stateOf(target);
    const { health, cooldowns, provider } = state;
    if (!health.isUsable || this.isOff(target)) return false;
    const now = this.clock();
    const until = (credential: Credential) => credentialUsableAt(state, credential, caller);
    const [soonest] = target.provider.credentials.toSorted((a, b) => until(a) - until(b));
    if (!soonest || until(soonest) > now + SHORT_COOLDOWN) return false;
    return !provider.cooldowns.isRefused(soonest, caller) && !cooldowns.isRefused(soonest, caller);
  }

  /** Reports whether a target has failed more than once in a row. */
  isFailing(target: Target): boolean {
    return this.stateOf(target).health.isFailing;
  }

  /**
   * Returns the targets that requests are balanced over, in the given order: the usable ones. Where there is none, the share to keep
   * of all, those that become usable soonest.
   */
  candidates(all: readonly Target[], caller?: string): readonly Target[] {
    const targets = this.enabled(all);
    // None is suspended.
    if (this.minShare >= 1) return targets;
    const usable = targets.filter((target) => this.isUsable(target, caller));
    if (usable.length > 0) return usable;
    const bySoonest = targets.toSorted((a, b) => this.usableAt(a, caller) - this.usableAt(b, caller));
    const kept = new Set(bySoonest.slice(0, Math.ceil(targets.length * this.minShare)));
    return targets.filter((target) => kept.has(target));
  }

  /** Returns all targets that are on: those of {@link candidates} first, then the rest, each in the given order. */
  ordered(all: readonly Target[], caller?: string): readonly Target[] {
    const targets = this.enabled(all);
    return targets.length < 2 ? targets : this.usableFirst(targets, caller);
  }

  private usableFirst(targets: readonly Target[], caller: string | undefined): readonly Target[] {
    if (targets.every((target) => this.isUsable(target, caller))) return targets;
    const candidates = this.candidates(targets, caller);
    return [...candidates, ...targets.filter((target) => !candidates.includes(target))];
  }

  /** Describes a target's health for the console. */
  report(target: Target): TargetReport {
    const { health, cooldowns, provider } = this.stateOf(target);
    const now = this.clock();
    const credentials = target.provider.credentials.map((credential): CredentialReport => {
      const applied = [provider.cooldowns.get(credential), cooldowns.get(credential)];
      const remaining = Math.max(0, ...applied.map((cooldown) => (cooldown?.until ?? 0) - now));
      const isRefused = applied.some((cooldown) => cooldown !== undefined && cooldown.nextDuration > 0);
      return { label: credential.label, state: isRefused ? "refused" : remaining > 0 ? "waiting" : "ok", remaining };
    });
    const { condition } = health;
    return { ...condition, state: this.isOff(target) ? "off" : condition.state, credentials };
  }

  /** Returns the recent milliseconds to a target's first byte, times its requests in flight plus one; 0 where unknown. */
  load(target: Target): number {
    return this.stateOf(target).health.load;
  }

  /** Returns `provider:model` of the target last recorded for a conversation; undefined: unknown. */
  conversationTarget(conversation: string): string | undefined {
    return this.conversations.get(conversation);
  }

  /** Remembers the target that was chosen for a conversation, also for the other processes of this gateway. */
  recordConversation(conversation: string, target: Target): void {
    this.conversations.record(conversation, Marketplace.nameOf(target));
  }

  /** Returns the id of the credential that made an object, as far as it is known. @param object its provider and its id */
  credentialOf(object: string): string | undefined {
    return this.conversations.get(object);
  }

  /** Remembers the credential that made an object, like the target of a conversation. */
  recordCredential(object: string, credential: string): void {
    this.conversations.record(object, credential);
  }

  /**
   * Returns the credential for a conversation at a target: always the same one while it may be used, and otherwise always the
   * same second one. Without a conversation the next in turn; where all are in cooldown, the one whose cooldown ends first.
   * @param preferred id of the one that is taken while it may be used
   */
  credential(target: Target, conversation?: string, caller?: string, preferred?: string): Credential | undefined {
    const state = this.stateOf(target);
    const { credentials } = target.provider;
    if (credentials.length < 2) return credentials[0];
    const now = this.clock();
    let best: Credential | undefined;
    let soonest = Number.POSITIVE_INFINITY;
    const first = preferred === undefined ? undefined : credentials.find(({ id }) => id === preferred);
    if (first && credentialUsableAt(state, first, caller) <= now) return first;
    for (const credential of credentialOrder(credentials, conversation ?? state.provider.nextCredential++)) {
      const until = Math.max(credentialUsableAt(state, credential, caller), now);
      if (until < soonest) [best, soonest] = [credential, until];
    }
    return best;
  }

  /** Records that an attempt is about to be sent. */
  recordStart(attempt: Attempt): TargetHealth {
    const { target, credential, caller } = attempt;
    const { health, cooldowns, provider } = this.stateOf(target);
    attempt.requestNumber = health.begin();
    if (credential) {
      const now = this.clock();
      cooldowns.recordUse(credential, now, caller);
      provider.cooldowns.recordUse(credential, now, caller);
    }
    return health;
  }

  /**
   * Records what the response to a passthrough request shows about the credential; it shows nothing about a target.
   * @param isConclusive whether its path or its body is one that shows something about the credential
   * @param isRefused whether the provider did not accept the credential
   */
  recordPassThrough(attempt: Attempt, isConclusive = true, isRefused = attempt.status === 401): void {
    const { target, credential, caller } = attempt;
    if (!credential || !isRefused) return;
    const { cooldowns } = this.stateOf(target).provider;
    if (isConclusive) this.logRefusal(attempt, cooldowns.recordRefusal(credential, this.clock(), caller), "everywhere");
    else
      this.log.warn(
        refusalFields(attempt),
        "the provider does not accept the credential on a path of its own: it stays in use",
      );
  }

  /**
   * Records a provider's response.
   * @param status the status that the response amounts to: 401 for a credential that is not accepted, whatever status the vendor
   * uses
   * @param wait milliseconds that the provider wants us to wait
   * @param firstByte milliseconds to the first byte
   */
  recordResponse(attempt: Attempt, status: number, wait = DEFAULT_COOLDOWN, firstByte = 0): void {
    const { target, credential, caller, requestNumber } = attempt;
    const { health, cooldowns, provider } = this.stateOf(target);
    const now = this.clock();
    if (status >= 500) health.recordFailure(requestNumber, caller);
    else health.recordResponse(requestNumber, firstByte, caller, status >= 300);
    // A refusal is an answer whatever becomes of its body.
    if (status >= 300 && status < 500) health.recordWhole(requestNumber);
    if (!credential) return;
    if (status === 401)
      this.logRefusal(attempt, provider.cooldowns.recordRefusal(credential, now, caller), "everywhere");
    // Out of credit: models that cost nothing, or cheaper requests, may still be served.
    else if (status === 402 || status === 403)
      this.logRefusal(attempt, cooldowns.recordRefusal(credential, now, caller), "at this target");
    else if (status === 429)
      cooldowns.recordWait(credential, now, Math.min(Math.max(wait, MIN_COOLDOWN), MAX_COOLDOWN), caller);
    else if (status < 300) {
      const wasRefused = provider.cooldowns.recordAcceptance(credential, now, caller);
      if (cooldowns.recordAcceptance(credential, now, caller) || wasRefused)
        this.log.info(attemptFields(attempt), "the provider accepts the credential again");
    }
  }

  /**
   * Records the end of a response whose head was recorded.
   * @param end `broken`: it broke off, cannot be read or reports a failure, through the provider's fault. `unfinished`: it ended for
   * another reason
   */
  recordEnd({ target, caller, requestNumber }: Attempt, end: "whole" | "broken" | "unfinished"): void {
    const { health } = this.stateOf(target);
    if (end === "whole") health.recordWhole(requestNumber);
    else if (end === "broken") health.recordBroken(requestNumber, caller);
    else health.recordInconclusive(requestNumber);
  }

  /**
   * Records that an attempt ended without a response.
   * @param isProviderFault whether that was the provider's fault
   * @param waited milliseconds that its client waited before it left; 0: the client did not leave
   */
  recordNoResponse({ target, requestNumber }: Attempt, isProviderFault: boolean, waited = 0): void {
    const { health } = this.stateOf(target);
    if (isProviderFault) health.recordFailure(requestNumber);
    else health.recordClientLeft(requestNumber, waited);
  }

  private logRefusal(attempt: Attempt, scope: CooldownScope | undefined, where: string): void {
    if (!scope) return;
    const isOnlyForCaller = scope === "caller" && attempt.caller !== "";
    const scopeText = isOnlyForCaller ? " for this key, for all once another one is refused too" : "";
    this.log.error(
      refusalFields(attempt),
      `${refusalText(attempt)}: switched off ${where}${scopeText}, retried now and then`,
    );
  }

  private isOff(target: Target): boolean {
    return this.off.size > 0 && (this.off.has(target.provider.name) || this.off.has(Marketplace.nameOf(target)));
  }

  private usableAt(target: Target, caller?: string): number {
    const state = this.stateOf(target);
    const times = target.provider.credentials.map((credential) => credentialUsableAt(state, credential, caller));
    return Math.max(state.health.usableAt, times.length === 0 ? 0 : Math.min(...times));
  }

  private stateOf(target: Target): TargetState {
    return this.targets.get(target) ?? this.addState(target);
  }

  private addState(target: Target): TargetState {
    const { name } = target.provider;
    const targetName = Marketplace.nameOf(target);
    let state = this.byName.get(targetName);
    if (!state) {
      const { credentials, health: limits } = target.provider;
      const provider = this.providers.get(name) ?? {
        name,
        cooldowns: this.createCooldowns(name),
        nextCredential: 0,
        credentials,
      };
      this.providers.set(name, provider);
      const { log, peers } = this;
      const publish = () => {
        const { time, remaining } = health.openTime;
        peers.publish({ about: targetName, until: time === 0 ? 0 : Date.now() + remaining, time });
      };
      const health = new TargetHealth(limits, this.clock, logChange(targetName, log), publish);
      state = { health, cooldowns: this.createCooldowns(targetName), provider };
      this.byName.set(targetName, state);
    }
    this.targets.set(target, state);
    return state;
  }

  private createCooldowns(about: string): CredentialCooldowns {
    const { clock, peers } = this;
    const cooldowns: CredentialCooldowns = new CredentialCooldowns((credential) => {
      const { until = 0, nextDuration: time = 0, onlyCaller } = cooldowns.get(credential) ?? {};
      const untilUnixTime = until === 0 ? 0 : Date.now() + until - clock();
      peers.publish({
        about,
        credential: credential.label,
        until: untilUnixTime,
        time,
        ...(onlyCaller !== undefined && { caller: onlyCaller }),
      });
    });
    return cooldowns;
  }
}

/** The error of a request whose targets can all not be used. @param targets those that its plugins have chosen */
export const noTargetError = ({ targets }: Pick<Exchange, "targets">): GatewayError =>
  targets.length > 0 ? switchedOffError() : new GatewayError("no_target");

/** Not retryable: the response is the same until an operator switches the target on. */
export const switchedOffError = (): GatewayError =>
  new GatewayError("no_target", {
    message: "The operator has switched off the provider of this request.",
    retry: false,
  });

const logChange =
  (target: string, log: Log) =>
  (openFor: number): void => {
    if (openFor === 0) log.info({ target }, "target has recovered");
    else log.warn({ target, seconds: openFor / 1000 }, "target is suspended: it fails too often");
  };

/** Orders credentials: stable for one conversation (rendezvous hashing), or starting with the one whose turn it is. */
function credentialOrder(
  credentials: readonly Credential[],
  conversationOrTurn: string | number,
): readonly Credential[] {
  if (typeof conversationOrTurn === "string") {
    const scores = new Map(
      credentials.map((credential) => [credential, hash("sha256", `${conversationOrTurn} ${credential.id}`)]),
    );
    return credentials.toSorted((a, b) => ((scores.get(a) as string) < (scores.get(b) as string) ? -1 : 1));
  }
  const first = conversationOrTurn % credentials.length;
  return [...credentials.slice(first), ...credentials.slice(0, first)];
}

/** Returns the id by which refusals of a credential are kept apart; all callers without a known key share one. */
export const callerIdOf = ({ caller }: Pick<Exchange, "caller">): string => caller?.id ?? "";

const refusalText = ({ status }: Attempt): string =>
  status === 404
    ? "the provider does not have the model, or not for the credential"
    : "the provider does not accept the credential";

/** Returns the log fields for a refused credential. */
const refusalFields = (attempt: Attempt) => ({
  ...attemptFields(attempt),
  status: attempt.status,
  ...(attempt.caller && { key: attempt.caller }),
});

const attemptFields = ({ target, credential }: Attempt) => ({
  target: Marketplace.nameOf(target),
  credential: credential?.label,
});
