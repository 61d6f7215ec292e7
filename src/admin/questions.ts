import { reachByProtocol } from "../console/model-card.ts";
import type { Caller } from "../core/caller.ts";
import { type Credential, Marketplace } from "../core/marketplace.ts";
import { type QuestionHandlers, question } from "../core/peers.ts";
import type { PriceVersion } from "../core/price-list.ts";
import type { RecordedExchange } from "../core/recorded.ts";
import type { RunningExchange } from "../downstream/running-exchanges.ts";
import type { Generation } from "../generation.ts";
import { phasesOf } from "../loader/methods.ts";
import type { MeasuredGateway } from "../metrics/process-metrics.ts";
import type { TimedBudgetMark } from "../store/budget-marks.ts";
import type { LimitStatus } from "../store/limiter.ts";
import type { Reach } from "../translation/reach.ts";
import type { CredentialReport, NamedTarget, TargetReport } from "../upstream/health.ts";

/** A running exchange, as the console shows it. Times in milliseconds. */
export interface LiveRequest {
  readonly id: string;
  readonly time: number;
  readonly age: number;
  readonly generation: number;
  /** Id and name of the caller's key. */
  readonly key?: string;
  readonly name?: string;
  readonly group?: string;
  readonly address: string;
  readonly method: string;
  readonly path: string;
  readonly protocol: string;
  readonly model?: string;
  readonly target?: string;
  readonly attempts: number;
  readonly kind: "request" | "stream" | "socket";
  readonly state: "waiting" | "asking" | "streaming";
  readonly first_byte?: number;
  readonly bytes: number;
  /** Estimated output tokens so far. */
  readonly tokens?: number;
  /** The process that serves it. */
  readonly worker: number;
}

/** A generation that is still in memory. */
interface LiveGeneration {
  readonly number: number;
  readonly since: number;
  readonly serving: boolean;
  /** When the exchanges that keep it alive are cut; absent: there are none, or it is the serving one. */
  readonly ends?: number;
  readonly worker: number;
  readonly exchanges: readonly LiveRequest[];
}

/** A provider that is on, as one process sees it. */
export interface LiveProvider {
  readonly name: string;
  /** An operator has switched it off. */
  readonly switched_off?: true;
  readonly credentials: readonly LiveCredential[];
  readonly targets: readonly LiveTarget[];
}

/** A target, as one process sees it. Times in milliseconds. */
export interface LiveTarget {
  readonly model: string;
  /** Ids of the marketplace's models. */
  readonly serves: readonly string[];
  readonly state: TargetReport["state"];
  /** An operator has switched off the target itself, not only its provider. */
  readonly switched_off?: true;
  /** Unix milliseconds until which it is not used. */
  readonly until?: number;
  readonly in_flight: number;
  readonly first_byte?: number;
  readonly recent: TargetReport["recent"];
  readonly credentials: readonly LiveCredential[];
}

/** The state of a credential. */
export interface LiveCredential {
  readonly label: string;
  readonly state: CredentialReport["state"];
  /** Unix milliseconds until which it is not used. */
  readonly until?: number;
}

/** A model of the marketplace with everything known about it. */
interface LiveModel {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
  readonly aliases: readonly string[];
  readonly context?: number | undefined;
  readonly output?: number | undefined;
  readonly can: readonly string[];
  readonly balance: string;
  readonly fallback: readonly string[];
  /** How each protocol reaches it. */
  readonly protocols: Readonly<Record<string, Reach>>;
  readonly targets: readonly {
    provider: string;
    model: string;
    weight: number;
    price?: object;
    sources?: PriceVersion["sources"];
  }[];
}

/** A plugin of the serving generation. */
interface LivePlugin {
  readonly name: string;
  readonly file: string;
  readonly phases: readonly string[];
}

/** Questions of the admin side to each serving process. */
export const LIVE_REQUESTS = question<null, LiveRequest[]>("live");
export const CANCEL = question<string, boolean>("cancel");
export const GENERATIONS = question<null, LiveGeneration[]>("generations");
export const PROVIDERS = question<null, LiveProvider[]>("providers");
/** Ends the pauses of a target, or of all targets of a provider. */
export const TRY_NOW = question<NamedTarget, true>("try now");
export const MODELS = question<null, LiveModel[]>("models");
export const PLUGINS = question<null, LivePlugin[]>("plugins");
/** Budget marks that were reached since the last question. */
export const LIMIT_MARKS = question<null, TimedBudgetMark[]>("limit marks");
/** What a plugin has recorded of an exchange. */
export const RECORDED = question<string, RecordedExchange | null>("recorded");
export const LIMIT_STATUSES = question<readonly Caller[], LimitStatus[]>("limit statuses");

/** The parts of a gateway in this process that these questions need. */
interface QueryableGateway extends MeasuredGateway {
  cancel(id: string): boolean;
  takeMarks(): TimedBudgetMark[];
}

/** Answers the admin side's questions for this process. */
export function registerAdminAnswers(answers: QuestionHandlers, gateway: QueryableGateway): void {
  answers.set(LIVE_REQUESTS, () => gateway.exchanges.map(liveRequest));
  answers.set(CANCEL, (id) => gateway.cancel(id));
  answers.set(GENERATIONS, () => gateway.generations.map((each) => liveGeneration(each, gateway)));
  answers.set(PROVIDERS, () => liveProviders(gateway.generation));
  answers.set(TRY_NOW, (which) => {
    gateway.generation.upstreams.health.tryNow(which);
    return true;
  });
  answers.set(MODELS, () => liveModels(gateway.generation));
  answers.set(PLUGINS, () =>
    [...gateway.generation.plugins].map(([name, { file, Class }]) => ({ name, file, phases: phasesOf(Class) })),
  );
  answers.set(RECORDED, (id) => findRecording(gateway.generation, id));
  answers.set(LIMIT_MARKS, () => gateway.takeMarks());
  answers.set(LIMIT_STATUSES, (callers) => gateway.generation.limitStatuses(callers));
}

/** Returns what the first plugin with a record of the exchange has. */
async function findRecording({ paths }: Generation, id: string): Promise<RecordedExchange | null> {
  for (const plugin of new Set(paths.mounts.flatMap(({ chain }) => chain.links.map((link) => link.plugin)))) {
    const found = await plugin.recorded?.(id);
    if (found) return found;
  }
  return null;
}

function liveRequest({ exchange, generation, reply }: RunningExchange): LiveRequest {
  const { id, time, caller, address, method, protocol, attempts, attempt, model, firstByte } = exchange;
  const tokens = tokensSoFar(exchange);
  const clean = (text: string) => generation.redactor.text(text, exchange.credentials);
  const path = generation.redactor.path(exchange.path, exchange.credentials);
  const { requestedModel } = exchange;
  const shownModel =
    attempt?.target.modelId ?? model?.id ?? (requestedModel === undefined ? undefined : clean(requestedModel));
  return {
    ...{ id, time, age: Math.round(exchange.elapsed), generation: generation.number },
    ...(caller && { key: caller.id, name: caller.name, ...(caller.group !== undefined && { group: caller.group }) }),
    ...{ address, method, path, protocol: protocol.name },
    ...(shownModel !== undefined && { model: shownModel }),
    ...(attempt && { target: Marketplace.nameOf(attempt.target) }),
    attempts: attempts.length,
    kind: reply ? (exchange.streaming ? "stream" : "request") : "socket",
    state: exchange.status > 0 ? "streaming" : attempt ? "asking" : "waiting",
    ...(firstByte !== undefined && { first_byte: Math.round(firstByte) }),
    bytes: exchange.written,
    ...(tokens !== undefined && { tokens: Math.round(tokens) }),
    worker: process.pid,
  };
}

/** Returns the output's tokens so far: what the provider has reported, which may be that of its start, or an estimate. */
function tokensSoFar({ usage, progress }: RunningExchange["exchange"]): number | undefined {
  const [reported, estimated] = [usage?.out.total, progress?.tokens];
  return reported === undefined || estimated === undefined ? (reported ?? estimated) : Math.max(reported, estimated);
}

function liveGeneration(generation: Generation, { generation: serving, exchanges }: QueryableGateway): LiveGeneration {
  const { number, startedAt, endsAt } = generation;
  const own = exchanges.filter((each) => each.generation === generation);
  const former = generation !== serving;
  return {
    ...{ number, since: startedAt, serving: !former, worker: process.pid },
    ...(former && endsAt !== undefined && { ends: endsAt }),
    exchanges: former ? own.map(liveRequest) : [],
  };
}

function liveProviders({ providers, marketplace, upstreams: { health } }: Generation): LiveProvider[] {
  const now = Date.now();
  const targets = marketplace.models.flatMap((model) => model.targets.map((target) => ({ model, target })));
  const off = (name: string) => (health.isSwitchedOff(name) ? { switched_off: true as const } : {});
  const until = (remaining: number) => (remaining > 0 ? { until: Math.round(now + remaining) } : {});
  return [...providers.values()].map(({ name, credentials }) => {
    const own = Map.groupBy(
      targets.filter(({ target }) => target.provider.name === name),
      ({ target }) => target.model,
    );
    const shown = [...own].map(([model, all]): LiveTarget => {
      const { state, remaining, inFlight, firstByte, recent, credentials } = health.report(
        (all[0] as (typeof all)[number]).target,
      );
      return {
        ...{ model, serves: all.map((each) => each.model.id), state, in_flight: inFlight, recent, ...until(remaining) },
        ...off(`${name}:${model}`),
        ...(firstByte !== undefined && { first_byte: Math.round(firstByte) }),
        credentials: credentials.map(({ label, state, remaining }) => ({ label, state, ...until(remaining) })),
      };
    });
    return { name, ...off(name), credentials: bestCredentials(credentials, shown), targets: shown };
  });
}

/** Returns each credential in its best state over the provider's targets. */
function bestCredentials(credentials: readonly Credential[], targets: readonly LiveTarget[]): LiveCredential[] {
  return credentials.map(({ label }) => {
    const found = targets.flatMap((target) => target.credentials.filter((each) => each.label === label));
    const [best = { label, state: "ok" as const }] = found.toSorted(
      (a, b) => credentialStateRank(a.state) - credentialStateRank(b.state),
    );
    return best;
  });
}

const CREDENTIAL_STATES: readonly LiveCredential["state"][] = ["ok", "waiting", "refused"];
/** Ranks a credential's state: 0 for ok, higher is worse. */
export const credentialStateRank = (state: LiveCredential["state"]): number => CREDENTIAL_STATES.indexOf(state);

function liveModels({ marketplace, protocols, config }: Generation): LiveModel[] {
  const now = Date.now();
  const served = [...new Set(config.paths.flatMap(({ protocol }) => protocol ?? []))];
  return marketplace.models.map((model) => {
    const { id, name, description, aliases, context, output, capabilities, balance, fallback, targets } = model;
    return {
      ...{ id, name, description, aliases, context, output, can: capabilities, balance, fallback },
      protocols: reachByProtocol(model, served, protocols),
      targets: targets.map(({ provider, model, weight, prices }) => {
        const price = prices?.versionAt(now);
        return { provider: provider.name, model, weight, ...(price && { price: price.price, sources: price.sources }) };
      }),
    };
  });
}
