import { hash } from "node:crypto";
import { GatewayError } from "../core/errors.ts";
import type { Attempt, Exchange } from "../core/exchange.ts";
import type { Log } from "../core/log.ts";
import { type Credential, Marketplace, type Target } from "../core/marketplace.ts";
import { CredentialRests, type RestNews } from "./credential-rests.ts";
import { type TargetCondition, TargetHealth } from "./target-health.ts";

/** Milliseconds for which a credential rests after a 429 that says no time, at least, and at most. */
const COOLING = 1000;
const LEAST_COOLING = 100;
const LONGEST_COOLING = 3_600_000;
/** Milliseconds of a rest that may be over before: vendors count by the minute, and what rests for longer has spent a quota. */
const SHORT_REST = 60_000;

/** What one process has found out, as it tells the others: plain JSON. */
export interface HealthNews {
  /** `provider:model`, or the name of a provider alone. */
  readonly about: string;
  /** The label of a credential there; absent: the target itself. */
  readonly credential?: string;
  /** Until when it is left alone, in Unix milliseconds, as clocks of processes begin at other times; 0: it is not. */
  readonly until: number;
  /** Milliseconds: how long it is left alone this time, for a credential the next time. */
  readonly time: number;
  /** Whose requests alone the credential was refused for; absent: it rests for all. */
  readonly caller?: string | undefined;
}

/** A target of a provider, or all of them. */
export interface NamedTarget {
  readonly provider: string;
  readonly model?: string | undefined;
}

/** How a target and the credentials that may be shown there do, for people. */
export interface TargetReport extends Omit<TargetCondition, "state"> {
  /** `off`: an operator has switched it off, or its provider. */
  readonly state: TargetCondition["state"] | "off";
  readonly credentials: readonly CredentialReport[];
}

/** How a credential does at a target. */
export interface CredentialReport {
  readonly label: string;
  /** `waiting`: the provider wants it to wait, after a 429. `refused`: the provider does not accept it. */
  readonly state: "ok" | "waiting" | "refused";
  /** Milliseconds until it may be shown again. */
  readonly left: number;
}

interface ProviderState {
  readonly name: string;
  /** Credentials that the provider does not know, whatever is asked. */
  readonly rests: CredentialRests;
  /** Whose turn it is. */
  turn: number;
  readonly credentials: readonly Credential[];
}

interface TargetState {
  readonly health: TargetHealth;
  /** Credentials that may not use this model, or not now. */
  readonly rests: CredentialRests;
  readonly provider: ProviderState;
}

/**
 * How targets and credentials do, and which of them are left alone for a time. Targets of the same name share it, whichever
 * models of the marketplace they serve. A plugin's constructor may ask for it.
 */
export class Health {
  private readonly targets = new WeakMap<Target, TargetState>();
  private readonly byName = new Map<string, TargetState>();
  private readonly providers = new Map<string, ProviderState>();
  /** Shared with those before and behind it: their targets are. */
  private readonly others: { tell(news: HealthNews): void };
  /** Names of providers and targets that an operator has switched off: shared likewise, whatever becomes of these. */
  private readonly off: Set<string>;

  /**
   * @param keep the share of a request's targets that is never left alone
   * @param clock milliseconds that only go forward
   * @param former that of the generation before
   * @param same whether a provider is what it was then: what was found out of it counts on
   */
  constructor(
    private readonly keep: number,
    private readonly log: Log,
    private readonly clock: () => number = () => performance.now(),
    former?: Health,
    same: (provider: string) => boolean = () => false,
  ) {
    this.others = former?.others ?? { tell: () => {} };
    this.off = former?.off ?? new Set();
    for (const [name, state] of former?.providers ?? []) if (same(name)) this.providers.set(name, state);
    for (const [name, state] of former?.byName ?? [])
      if (this.providers.has(state.provider.name)) this.byName.set(name, state);
  }

  /** From now on others hear of what is found out here. @param targets of which they may tell, besides those that were asked */
  share(targets: Iterable<Target>, tell: (news: HealthNews) => void): void {
    for (const target of targets) this.of(target);
    this.others.tell = tell;
  }

  /** Another process has found out something. */
  learn({ about, credential: label, until, time, caller: by }: HealthNews): void {
    const left = Math.max(0, until - Date.now());
    const { provider, ...target } = this.byName.get(about) ?? { provider: this.providers.get(about) };
    if (label === undefined) {
      if ("health" in target) target.health.learn({ time: until === 0 ? 0 : time, left });
      return;
    }
    const credential = provider?.credentials.find((each) => each.label === label);
    if (!credential) return;
    const rests = "rests" in target ? target.rests : provider?.rests;
    rests?.learn(credential, until === 0 ? undefined : { until: this.clock() + left, next: time, by });
  }

  /** Ends that targets and credentials are left alone. @param model one of the provider's; left out: all */
  tryNow({ provider, model }: NamedTarget): void {
    const now = this.clock();
    const only = model === undefined ? undefined : `${provider}:${model}`;
    for (const [name, { health, rests, provider: of }] of this.byName) {
      if (of.name !== provider || (only !== undefined && name !== only)) continue;
      health.hurry();
      rests.hurry(now);
    }
    this.providers.get(provider)?.rests.hurry(now);
  }

  /** An operator switches a provider or a target off, or on again: until then nothing is sent there. @param name of either */
  switch(name: string, off: boolean): void {
    if (off) this.off.add(name);
    else this.off.delete(name);
  }

  /** Whether that very name is switched off. */
  switchedOff(name: string): boolean {
    return this.off.has(name);
  }

  /** Those that are not switched off. */
  on(targets: readonly Target[]): readonly Target[] {
    return this.off.size === 0 ? targets : targets.filter((target) => !this.isOff(target));
  }

  /** @throws GatewayError no_target where it is switched off */
  admit(target: Target): void {
    if (this.isOff(target)) throw switchedOff();
  }

  /**
   * Whether a target may be asked: it is on and not left alone, and a credential of its provider may be shown there.
   * @param caller whose request it would be; left out: nobody's in particular
   */
  usable(target: Target, caller?: string): boolean {
    const { health, rests, provider } = this.of(target);
    const { credentials } = target.provider;
    if (!health.usable || this.isOff(target)) return false;
    if (credentials.length === 0) return true;
    const now = this.clock();
    return credentials.some((each) => provider.rests.until(each, caller) <= now && rests.until(each, caller) <= now);
  }

  /** Whether a target is well but for a rest that its provider has asked for with a 429, and which is soon over. */
  onlyRests(target: Target, caller?: string): boolean {
    const { health, rests, provider } = this.of(target);
    if (!health.usable || this.isOff(target)) return false;
    const now = this.clock();
    const until = (each: Credential) => Math.max(provider.rests.until(each, caller), rests.until(each, caller));
    const [soonest] = target.provider.credentials.toSorted((a, b) => until(a) - until(b));
    if (!soonest || until(soonest) > now + SHORT_REST) return false;
    return !provider.rests.refused(soonest, caller) && !rests.refused(soonest, caller);
  }

  /** Whether a target has failed more than once in a row. */
  failing(target: Target): boolean {
    return this.of(target).health.failing;
  }

  /**
   * The targets that requests are shared among, in the given order: those that may be asked, and where these are too few of
   * all, the others that may be asked soonest.
   */
  among(all: readonly Target[], caller?: string): readonly Target[] {
    const targets = this.on(all);
    const usable = targets.filter((target) => this.usable(target, caller));
    const missing = Math.ceil(targets.length * this.keep) - usable.length;
    if (missing <= 0 || usable.length === targets.length) return usable;
    const others = targets.filter((target) => !usable.includes(target));
    const kept = others.sort((a, b) => this.usableAt(a, caller) - this.usableAt(b, caller)).slice(0, missing);
    return targets.filter((target) => usable.includes(target) || kept.includes(target));
  }

  /** All that are on, best first as given, but those that are left alone behind the others. */
  ordered(all: readonly Target[], caller?: string): readonly Target[] {
    const targets = this.on(all);
    if (targets.length < 2 || targets.every((target) => this.usable(target, caller))) return targets;
    const among = this.among(targets, caller);
    return [...among, ...targets.filter((target) => !among.includes(target))];
  }

  /** How a target does, for people to look at. */
  report(target: Target): TargetReport {
    const { health, rests, provider } = this.of(target);
    const now = this.clock();
    const credentials = target.provider.credentials.map((credential): CredentialReport => {
      const found = [provider.rests.of(credential), rests.of(credential)];
      const left = Math.max(0, ...found.map((rest) => (rest?.until ?? 0) - now));
      const refused = found.some((rest) => rest !== undefined && rest.next > 0);
      return { label: credential.label, state: refused ? "refused" : left > 0 ? "waiting" : "ok", left };
    });
    const { condition } = health;
    return { ...condition, state: this.isOff(target) ? "off" : condition.state, credentials };
  }

  /** Milliseconds to a target's first byte as of late, times what runs there; 0 where nobody knows. */
  load(target: Target): number {
    return this.of(target).health.load;
  }

  /**
   * The credential of a conversation that may be shown at a target: the same one as long as it may, or else the same second
   * one. Without a conversation the next in turn; where none may be shown, the one that may be soonest.
   */
  credential(target: Target, conversation?: string, caller?: string): Credential | undefined {
    const { provider, rests } = this.of(target);
    const { credentials } = target.provider;
    if (credentials.length < 2) return credentials[0];
    const now = this.clock();
    let best: Credential | undefined;
    let soonest = Number.POSITIVE_INFINITY;
    for (const credential of inTurn(credentials, conversation ?? provider.turn++)) {
      const until = Math.max(provider.rests.until(credential, caller), rests.until(credential, caller), now);
      if (until < soonest) [best, soonest] = [credential, until];
    }
    return best;
  }

  /** An attempt is about to be sent. */
  begin({ target, credential, caller }: Attempt): TargetHealth {
    const { health, rests, provider } = this.of(target);
    health.begin();
    if (credential) {
      const now = this.clock();
      rests.show(credential, now, caller);
      provider.rests.show(credential, now, caller);
    }
    return health;
  }

  /**
   * What the answer to a request that passed unread tells of the credential; of targets it tells nothing.
   * @param known whether its path, or its words, are such that it tells something of it
   * @param refused whether it is not accepted
   */
  passed(attempt: Attempt, known = true, refused = attempt.status === 401): void {
    const { target, credential, caller } = attempt;
    if (!credential || !refused) return;
    const { rests } = this.of(target).provider;
    if (known) this.refused(attempt, rests.refuse(credential, this.clock(), caller), "everywhere");
    else
      this.log.warn(told(attempt), "the provider does not accept the credential on a path of its own: it stays in use");
  }

  /**
   * A provider has answered.
   * @param status what the answer comes to: 401 where it does not accept the credential, whatever status it says so with
   * @param wait milliseconds for which it wants to be left alone
   * @param firstByte milliseconds that the answer took
   */
  answered(attempt: Attempt, status: number, wait = COOLING, firstByte = 0): void {
    const { target, credential, caller } = attempt;
    const { health, rests, provider } = this.of(target);
    const now = this.clock();
    if (status >= 500) health.fail();
    else health.succeed(firstByte);
    if (!credential) return;
    if (status === 401) this.refused(attempt, provider.rests.refuse(credential, now, caller), "everywhere");
    else if (status === 403) this.refused(attempt, rests.refuse(credential, now, caller), "at this target");
    else if (status === 429) rests.cool(credential, now + Math.min(Math.max(wait, LEAST_COOLING), LONGEST_COOLING));
    else if (status < 300) {
      const known = provider.rests.accept(credential, now, caller);
      if (rests.accept(credential, now, caller) || known)
        this.log.info(named(attempt), "the provider accepts the credential again");
    }
  }

  /**
   * An attempt ended without an answer.
   * @param fault whether that was the provider's
   * @param waited milliseconds that its client has waited for it and then left; 0: it ended otherwise
   */
  unanswered({ target }: Attempt, fault: boolean, waited = 0): void {
    const { health } = this.of(target);
    if (fault) health.fail();
    else health.left(waited);
  }

  private refused(attempt: Attempt, news: RestNews | undefined, where: string): void {
    if (!news) return;
    const alone = news === "caller" && attempt.caller !== "";
    const whose = alone ? " for this key, for all once another one is refused too" : "";
    this.log.error(
      told(attempt),
      `the provider does not accept the credential: switched off ${where}${whose}, tried again now and then`,
    );
  }

  private isOff(target: Target): boolean {
    return this.off.size > 0 && (this.off.has(target.provider.name) || this.off.has(Marketplace.nameOf(target)));
  }

  private usableAt(target: Target, caller?: string): number {
    const { health, rests, provider } = this.of(target);
    const { credentials } = target.provider;
    const free = credentials.map((each) => Math.max(provider.rests.until(each, caller), rests.until(each, caller)));
    return Math.max(health.usableAt, credentials.length === 0 ? 0 : Math.min(...free));
  }

  private of(target: Target): TargetState {
    const known = this.targets.get(target);
    if (known) return known;
    const { name } = target.provider;
    const full = Marketplace.nameOf(target);
    let state = this.byName.get(full);
    if (!state) {
      const { credentials, health: limits } = target.provider;
      const provider = this.providers.get(name) ?? { name, rests: this.rests(name), turn: 0, credentials };
      this.providers.set(name, provider);
      const { log, others } = this;
      const health = new TargetHealth(limits, this.clock, changed(full, log), () => {
        const { time, left } = health.opening;
        others.tell({ about: full, until: time === 0 ? 0 : Date.now() + left, time });
      });
      state = { health, rests: this.rests(full), provider };
      this.byName.set(full, state);
    }
    this.targets.set(target, state);
    return state;
  }

  private rests(about: string): CredentialRests {
    const { clock, others } = this;
    const rests: CredentialRests = new CredentialRests((credential) => {
      const { until = 0, next: time = 0, by } = rests.of(credential) ?? {};
      const moment = until === 0 ? 0 : Date.now() + until - clock();
      others.tell({
        about,
        credential: credential.label,
        until: moment,
        time,
        ...(by !== undefined && { caller: by }),
      });
    });
    return rests;
  }
}

/** Whoever asks again gets the same answer until somebody switches it on. */
export const switchedOff = (): GatewayError =>
  new GatewayError("no_target", { message: "The operator has switched off who serves this.", retry: false });

const changed =
  (target: string, log: Log) =>
  (openFor: number): void => {
    if (openFor === 0) log.info({ target }, "target is well again");
    else log.warn({ target, seconds: openFor / 1000 }, "target is left alone: it fails too often");
  };

/** Credentials as a conversation keeps to them (rendezvous hashing), or beginning with the one whose turn it is. */
function inTurn(credentials: readonly Credential[], by: string | number): readonly Credential[] {
  if (typeof by === "string") {
    const scores = new Map(credentials.map((each) => [each, hash("sha256", `${by} ${each.label}`)]));
    return credentials.toSorted((a, b) => ((scores.get(a) as string) < (scores.get(b) as string) ? -1 : 1));
  }
  const first = by % credentials.length;
  return [...credentials.slice(first), ...credentials.slice(0, first)];
}

/** Of whom refusals of a credential are told apart: those whose key nobody knows are one. */
export const callerOf = ({ caller }: Pick<Exchange, "caller">): string => caller?.id ?? "";

/** What a line on a refusal names. */
const told = (attempt: Attempt) => ({
  ...named(attempt),
  status: attempt.status,
  ...(attempt.caller && { key: attempt.caller }),
});

const named = ({ target, credential }: Attempt) => ({
  target: Marketplace.nameOf(target),
  credential: credential?.label,
});
