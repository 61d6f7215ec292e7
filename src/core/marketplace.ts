import { internalize } from "../wire/internalize.ts";
import type { JsonPath } from "../wire/paths.ts";
import type { Caller } from "./caller.ts";
import { editDistance } from "./edit-distance.ts";
import { GatewayError } from "./errors.ts";
import { compileGlob, matchesAny } from "./glob.ts";
import { modelNotAllowed, otherModelNotAllowed, otherModelNotServed } from "./key-scope.ts";
import { checkModel } from "./model-name.ts";
import { plural } from "./plural.ts";
import type { PriceList } from "./price-list.ts";
import type { Shape } from "./shape.ts";
import { shortPath } from "./shorten.ts";

/** A credential for a provider. */
export interface Credential {
  /** Its name in the log and the ledger: the variable or file it comes from, never a part of the secret. */
  readonly label: string;
  /** Its name in the store, which stays the same when the list of credentials is reordered. */
  readonly id: string;
  readonly secret: string;
  /**
   * Names its connections, which are never shared: the provider's name, the credential's index there and a digest of the secret.
   */
  readonly account: string;
}

/** An account at a vendor's URL, as configured in gateway.yaml. */
export interface Provider {
  name: string;
  /** The base URL, ending with the version segment, without a trailing slash. */
  url: URL;
  /** The credentials, used in rotation; if empty, none is sent. */
  credentials: readonly Credential[];
  /** The header for the credential, if it is not the protocol's usual one. */
  header?: string;
  /** Protocol names, the preferred one first. */
  speaks: readonly string[];
  /** Client headers that are sent upstream besides the protocol's own. */
  forward: readonly string[];
  /** Whether it stores conversations, so that clients send only new turns; undefined: the protocol knows which vendors do. */
  threads?: boolean;
  /** Ids of objects there that every caller may name, although no key has made them. */
  shared?: readonly string[];
  /** Maximum concurrent requests; 0 or undefined: unlimited. */
  concurrency?: number;
  timeouts: Timeouts;
  /** The vendor whose prices apply, as the price tables name it; undefined: derived from the URL. */
  vendor?: string;
  /** The header whose value makes the provider process a repeated request only once. */
  idempotency?: string;
  /** Milliseconds after the last request for which a connection is kept ready; 0: never. */
  warm: number;
  health: HealthLimits;
}

export const PROVIDER_SHAPE: Shape<Provider> = {
  ...{ name: true, url: true, credentials: true, header: true, speaks: true, forward: true, threads: true },
  ...{ shared: true, concurrency: true, timeouts: true, vendor: true, idempotency: true, warm: true, health: true },
};

/** When a target is taken out of use, and for how long. Times in milliseconds, shares from 0 to 1. */
export interface HealthLimits {
  /** Consecutive failures. */
  failures: number;
  /** The share of failures among at least `requests` requests within `window`; 0: disabled. */
  errors: number;
  requests: number;
  window: number;
  /**
   * A later first byte counts as a failure in that share, as does a client that leaves after this time without one; 0: disabled.
   */
  slow: number;
  /** How long it is out of use at first; doubled each time it fails again, up to `longest`. */
  open: number;
  longest: number;
}

/** When a request is retried. Times in milliseconds, shares from 0 to 1; 0: disabled. */
export interface RetryLimits {
  /** Retries after attempts that a provider may have processed. */
  attempts: number;
  /** The share of such retries among all requests of ten seconds, and the retries per second that are always allowed. */
  budget: number;
  least: number;
  /** The longest wait before a request's next attempt. */
  wait: number;
  /** Whether another target is tried after one that did not begin to respond in time. */
  after_timeout: boolean;
  /** How long the head of a stream is held back for its first frame, which may be an error. */
  first_frame: number;
}

/** How requests are distributed over the targets of a model. */
type Balance = "weighted" | "latency" | "cheapest";

/** Milliseconds. */
export interface Timeouts {
  connect: number;
  /** From sending the request to the response head. */
  first_byte: number;
  /** Between two chunks of a response. */
  idle: number;
  /** The whole attempt. */
  total: number;
}

/** A provider and the vendor's name of a model there. */
export interface Target {
  provider: Provider;
  model: string;
  weight: number;
  /** The id of the marketplace model that it belongs to. */
  modelId?: string;
  /** Its prices; undefined: unknown, which is not 0. */
  prices?: PriceList;
  /** The name of the protocol to use there, whatever the client uses. */
  protocolName?: string;
  /** What a translation must know about the model there. */
  facts?: Facts;
  /** Maximum output tokens, as far as known: nothing forces a provider to keep to it. */
  maxOutputTokens?: number;
}

export const TARGET_SHAPE: Shape<Target> = {
  ...{ provider: true, model: true, weight: true, modelId: true },
  ...{ prices: true, protocolName: true, facts: true, maxOutputTokens: true },
};

/** @throws TypeError for anything but a list of targets, as a plugin may set one */
export function checkTargets(targets: readonly Target[]): void {
  if (!Array.isArray(targets) || targets.some(isNoTarget))
    throw new TypeError("The targets of a request are a list of the marketplace's.");
}

const isNoTarget = (target: Partial<Target> | undefined): boolean => !target?.provider;

const names = new WeakMap<Target, string>();

function createName(target: Target): string {
  const name = internalize(`${target.provider.name}:${target.model}`);
  names.set(target, name);
  return name;
}

/** A model name that clients may use: an entry of the marketplace. */
export interface Model {
  id: string;
  name: string;
  description?: string;
  aliases: readonly string[];
  /** Unix seconds. */
  created: number;
  /** Size of the context in tokens. */
  context?: number;
  /** Maximum output tokens. */
  output?: number;
  /** What requests may use, like `tools` or `vision`: `can` in gateway.yaml. */
  capabilities: readonly string[];
  balance: Balance;
  targets: readonly Target[];
  fallback: readonly string[];
  /** False: the marketplace's pages do not list it; for keys it is a model like any other. */
  public?: boolean;
}

export const MODEL_SHAPE: Shape<Model> = {
  ...{ id: true, name: true, description: true, aliases: true, created: true, context: true, output: true },
  ...{ capabilities: true, balance: true, targets: true, fallback: true, public: true },
};

/** Facts about a target that translation needs; from gateway.yaml, with defaults that leave the decision to the vendor. */
export interface Facts {
  /** False: refuses temperature, top_p, top_k and penalties. */
  sampling?: boolean;
  /** How thinking is requested: a token budget, the model's own choice with an effort, a level, or not at all. */
  thinking?: "budget" | "adaptive" | "level" | "none";
  /** False: public tables list its capabilities, and reasoning is not one of them; overridden by `thinking` in gateway.yaml. */
  reasons?: boolean;
  /** The longest output in tokens. */
  output?: number;
  /** True: accepts system messages between turns. */
  system_in_place?: boolean;
  /** True: continues an assistant turn at the end of the request. */
  prefill?: boolean;
  /** True: accepts cache marks in a prompt; other servers may refuse unknown members. */
  cache_marks?: boolean;
}

/** The list of models that clients may name. */
export class Marketplace {
  /** Returns the name of a target in logs, metrics, headers and the ledger: `provider:model`. Cached, as it is needed often. */
  static nameOf(target: Target): string {
    return names.get(target) ?? createName(target);
  }

  /** Reports whether a target's provider speaks a protocol, so that requests of it are sent there without translation. */
  static isNative({ provider, protocolName }: Target, protocol: string): boolean {
    return provider.speaks.includes(protocol) && (protocolName ?? protocol) === protocol;
  }

  private readonly byName = new Map<string, Model>();
  /** Aliases with a `*`, which matches any text; the longest first. */
  private readonly byPattern: { pattern: RegExp; length: number; model: Model }[] = [];

  constructor(readonly models: readonly Model[]) {
    for (const model of models) {
      this.byName.set(model.id, model);
      for (const alias of model.aliases) {
        if (alias.includes("*")) this.byPattern.push({ pattern: compileGlob(alias), length: alias.length, model });
        else this.byName.set(alias, model);
      }
    }
    this.byPattern.sort((a, b) => b.length - a.length);
  }

  /** Returns the model of that name or alias, if the caller may use it; names are case-sensitive. */
  find(name: string, caller?: Caller): Model | undefined {
    const model = this.byName.get(name) ?? this.byPattern.find(({ pattern }) => pattern.test(name))?.model;
    return model && isAllowed(model, caller) ? model : undefined;
  }

  /**
   * Returns the model with a target at this provider and of this vendor's name, if the caller may use it. Some clients name a
   * second model by the vendor's own name.
   */
  findByTarget(provider: Provider, model: string, caller?: Caller): Model | undefined {
    return this.list(caller).find(({ targets }) =>
      targets.some((target) => target.provider.name === provider.name && target.model === model),
    );
  }

  /**
   * Returns the prices of a model at a provider, by the vendor's name, with or without a date, or by ours; undefined: unknown.
   */
  pricesAt({ name: provider }: Pick<Provider, "name">, model: string): PriceList | undefined {
    const targets = this.models.flatMap((each) => each.targets).filter((target) => target.provider.name === provider);
    const named = this.find(model)?.targets.find((target) => target.provider.name === provider);
    const undated = undatedName(model);
    return [
      targets.find((target) => target.model === model),
      named,
      targets.find((target) => undatedName(target.model) === undated),
    ].find((target) => target?.prices)?.prices;
  }

  /**
   * Returns the provider's name of a model that a request names besides the requested one. A name that is not in the marketplace
   * is taken as the vendor's own, for callers without a restriction to models.
   * @param path the location of the name in the request
   * @throws GatewayError `key_not_allowed` where the caller is restricted to other models; `not_served` where this provider does
   *   not have the model
   */
  otherModelName(name: string, path: JsonPath, provider: Provider, caller?: Caller): string {
    const model = this.find(name, caller);
    const target = model?.targets.find((each) => each.provider.name === provider.name);
    if (target) return target.model;
    if (!caller?.models) return name;
    const param = shortPath(path);
    throw model ? otherModelNotServed(name, param) : otherModelNotAllowed(caller, name, param);
  }

  /**
   * Returns the model of a name that a client or a plugin has chosen.
   * @throws GatewayError `invalid_field`; `key_not_allowed`; `model_not_found`, which suggests only names that the caller may see
   */
  require(name: string, caller?: Caller): Model {
    const model = this.find(checkModel(name), caller);
    if (model) return model;
    if (caller && this.find(name)) throw modelNotAllowed(caller, name);
    const near = this.similarIds(name, caller).map((id) => `"${id}"`);
    const seen = this.usable(caller).length;
    throw new GatewayError("model_not_found", {
      message: `No model "${name}".${near.length > 0 ? ` Did you mean ${near.join(" or ")}?` : ""}`,
      hint: `This key may use ${seen} ${plural(seen, "model")}: GET /v1/models.`,
      param: "model",
    });
  }

  /** Returns the models that the caller may use, in the order of gateway.yaml. */
  list(caller?: Caller): Model[] {
    return this.models.filter((model) => isAllowed(model, caller));
  }

  /**
   * Returns those of `list` that can be used now: a model without an enabled provider, of its own or of a fallback, is left out.
   */
  usable(caller?: Caller): Model[] {
    const on = (model: Model | undefined) => model !== undefined && model.targets.length > 0;
    return this.list(caller).filter((model) => on(model) || model.fallback.some((name) => on(this.find(name, caller))));
  }

  /** Returns up to three ids of usable models that are similar to this name. */
  similarIds(name: string, caller?: Caller): string[] {
    const wanted = name.toLowerCase();
    return this.usable(caller)
      .map((model) => ({ id: model.id, distance: editDistance(wanted, model.id.toLowerCase()) }))
      .filter(
        ({ id, distance }) => distance <= Math.max(2, Math.min(wanted.length, id.length) / 3) || isRelated(wanted, id),
      )
      .sort((a, b) => a.distance - b.distance)
      .slice(0, 3)
      .map(({ id }) => id);
  }
}

/** Returns a vendor's name of a model without the date of its version, which comes last. */
export const undatedName = (name: string): string => name.replace(/[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/, "");

const isAllowed = (model: Model, caller: Caller | undefined): boolean =>
  !caller?.models || matchesAny(caller.models, model.id);

const isRelated = (wanted: string, id: string): boolean =>
  wanted.length >= 4 && (id.includes(wanted) || wanted.includes(id));
