import type { GatewayError } from "./errors.ts";
import { globOf, matchesAny } from "./glob.ts";
import { modelNotAllowed, otherNotAllowed, otherNotHere } from "./key-scope.ts";
import type { Limits } from "./limit-kinds.ts";
import type { PriceList } from "./price-list.ts";
import type { Shape } from "./shape.ts";

/** Who holds a gateway key. */
export interface Caller {
  /** The key's public id, safe in logs. */
  id: string;
  /** The name the operator gave it. */
  name: string;
  /** Ids of models it may use, in which * stands for any text; undefined: all. */
  models?: readonly string[];
  /** Paths it may use, in the same way, `GET /v1/files/*` with that method only; undefined: all. */
  paths?: readonly string[];
  /** Addresses and ranges that it may be used from; undefined: all. */
  addresses?: readonly string[];
  /** The group it belongs to, like `acme/research`. */
  group?: string;
  /** Whose it is, in the operator's words. */
  owner?: string;
  /** What the operator sums up by; they stand in the ledger as they were at the time. */
  tags?: Readonly<Record<string, string>>;
  /** What it may use, where that was told when the key was made; what is absent is what gateway.yaml says of all keys. */
  limits?: Limits;
  /** Unix milliseconds from which on it opens nothing, and what runs for it ends. */
  expires?: number;
}

export const CALLER: Shape<Caller> = {
  ...{ id: true, name: true, models: true, paths: true, addresses: true, group: true, owner: true, tags: true },
  ...{ limits: true, expires: true },
};

/** What is shown to a provider. */
export interface Credential {
  /** Names it in the log and the ledger: the variable or the file it comes from, never a part of it. */
  readonly label: string;
  readonly secret: string;
  /** Names its connections, which are never shared: the provider's name, its place there and a digest of the secret. */
  readonly account: string;
}

/** An account at a vendor's address, as gateway.yaml tells. */
export interface Provider {
  name: string;
  /** Address that ends with the version segment, without a trailing slash. */
  url: URL;
  /** What we show the provider, in turn; none: nothing is sent. */
  credentials: readonly Credential[];
  /** Header for the credential, where it is not the protocol's usual one. */
  header?: string;
  /** Protocol names, best first. */
  speaks: readonly string[];
  /** Client headers that go upstream besides the protocol's own. */
  forward: readonly string[];
  /** Whether it keeps conversations, so that clients send only what is new; undefined: the protocol knows who does. */
  threads?: boolean;
  /** Ids of objects there that every caller may name, though none has made them. */
  shared?: readonly string[];
  /** Requests at a time; 0 or undefined: any number. */
  concurrency?: number;
  timeouts: Timeouts;
  /** Whose prices hold there, as `Catalogue` names vendors; undefined: the address tells. */
  vendor?: string;
  /** Header whose value makes it do once what it is sent twice. */
  idempotency?: string;
  /** Milliseconds after the last request for which a connection is kept ready; 0: not at all. */
  warm: number;
  health: HealthLimits;
}

export const PROVIDER: Shape<Provider> = {
  ...{ name: true, url: true, credentials: true, header: true, speaks: true, forward: true, threads: true },
  ...{ shared: true, concurrency: true, timeouts: true, vendor: true, idempotency: true, warm: true, health: true },
};

/** When a target is left alone, and for how long. Times in milliseconds, shares from 0 to 1. */
export interface HealthLimits {
  /** Failures in a row. */
  failures: number;
  /** The share of failures among so many requests or more within a window; 0: none. */
  errors: number;
  requests: number;
  window: number;
  /** A first byte that comes later counts as a failure in that share, as does a client that leaves later without one; 0: none does. */
  slow: number;
  /** How long it is left alone at first; twice as long each time it fails again, up to `longest`. */
  open: number;
  longest: number;
}

/** When a request is tried again. Times in milliseconds, shares from 0 to 1; 0: off. */
export interface RetryLimits {
  /** Tries besides the first that a provider may have worked on. */
  attempts: number;
  /** Such tries of all requests of ten seconds, and a number per second that is always granted. */
  budget: number;
  least: number;
  /** For how long a request waits for its next try at most. */
  wait: number;
  /** Whether another target is tried behind one that did not begin to answer in time. */
  after_timeout: boolean;
  /** For how long the head of a stream waits for its first frame, which may be an error. */
  first_frame: number;
}

/** How the targets of a model share its requests. */
type Balance = "weighted" | "latency" | "cheapest";

/** Milliseconds. */
export interface Timeouts {
  connect: number;
  /** From the request being sent to the answer's head. */
  first_byte: number;
  /** Between two pieces of an answer. */
  idle: number;
  /** From start to end of an attempt. */
  total: number;
}

/** A provider and the vendor's name of a model there. */
export interface Target {
  provider: Provider;
  model: string;
  weight: number;
  /** Id of the marketplace's model that it serves. */
  serves?: string;
  /** What it costs there; undefined: nobody knows, which is not 0. */
  prices?: PriceList;
  /** The protocol to speak there, whatever the client speaks. */
  via?: string;
  /** What a translation must know of the model there. */
  facts?: Facts;
  /** Tokens of its longest answer, as far as anybody knows: nothing keeps a provider to less than it gives. */
  longest?: number;
}

export const TARGET: Shape<Target> = {
  ...{ provider: true, model: true, weight: true, serves: true, prices: true, via: true, facts: true, longest: true },
};

const names = new WeakMap<Target, string>();

/** A name clients may use: an entry of the marketplace. */
export interface Model {
  id: string;
  name: string;
  description?: string;
  aliases: readonly string[];
  /** Unix seconds. */
  created: number;
  /** Tokens that fit in. */
  context?: number;
  /** Tokens that come out at most. */
  output?: number;
  can: readonly string[];
  balance: Balance;
  targets: readonly Target[];
  fallback: readonly string[];
  /** False: the marketplace's pages do not list it; for keys it is a model like any other. */
  public?: boolean;
}

export const MODEL: Shape<Model> = {
  ...{ id: true, name: true, description: true, aliases: true, created: true, context: true, output: true, can: true },
  ...{ balance: true, targets: true, fallback: true, public: true },
};

/** Facts about a target that the mapping needs; from gateway.yaml, with defaults that let the vendor judge. */
export interface Facts {
  /** False: refuses temperature, top_p and top_k. */
  sampling?: boolean;
  /** How thinking is asked for: tokens, the model's own choice with an effort, a level, or not at all. */
  thinking?: "budget" | "adaptive" | "level" | "none";
  /** False: public tables know what it can do, and that it reasons is not among it; gateway.yaml says so with `thinking`. */
  reasons?: boolean;
  /** The longest answer in tokens. */
  output?: number;
  /** True: takes system messages between turns. */
  system_in_place?: boolean;
  /** True: continues an assistant's turn at the end. */
  prefill?: boolean;
  /** True: takes marks in a prompt up to which it shall be cached, where others refuse members that they do not know. */
  cache_marks?: boolean;
}

/** The list of models that clients may name. */
export class Marketplace {
  /** How a target is called in logs, metrics, headers and the ledger: `provider:model`. One text for each, as it is looked up often. */
  static nameOf(target: Target): string {
    let name = names.get(target);
    if (name === undefined) {
      name = `${target.provider.name}:${target.model}`;
      names.set(target, name);
    }
    return name;
  }

  private readonly byName = new Map<string, Model>();
  /** Aliases with a `*`, which stands for any text; the one with most letters first. */
  private readonly byPattern: { pattern: RegExp; length: number; model: Model }[] = [];

  constructor(readonly models: readonly Model[]) {
    for (const model of models) {
      this.byName.set(model.id, model);
      for (const alias of model.aliases) {
        if (alias.includes("*")) this.byPattern.push({ pattern: globOf(alias), length: alias.length, model });
        else this.byName.set(alias, model);
      }
    }
    this.byPattern.sort((a, b) => b.length - a.length);
  }

  /** The model of that name or alias, if the caller may use it; a name is matched to the letter. */
  find(name: string, caller?: Caller): Model | undefined {
    const model = this.byName.get(name) ?? this.byPattern.find(({ pattern }) => pattern.test(name))?.model;
    return model && allowed(model, caller) ? model : undefined;
  }

  /**
   * The model that a caller may use by the name of it at a provider, of which some clients name a second one by the vendor's
   * own name.
   */
  at(provider: Provider, model: string, caller?: Caller): Model | undefined {
    return this.list(caller).find(({ targets }) =>
      targets.some((target) => target.provider.name === provider.name && target.model === model),
    );
  }

  /**
   * What a model costs at a provider, by the vendor's name of it, with or without a date, or by ours; undefined: nobody knows.
   */
  pricesAt({ name: provider }: Pick<Provider, "name">, model: string): PriceList | undefined {
    const targets = this.models.flatMap((each) => each.targets).filter((target) => target.provider.name === provider);
    const named = this.find(model)?.targets.find((target) => target.provider.name === provider);
    const undated = model.replace(DATE, "");
    return [
      targets.find((target) => target.model === model),
      named,
      targets.find((target) => target.model.replace(DATE, "") === undated),
    ].find((target) => target?.prices)?.prices;
  }

  /**
   * What a provider calls a model that a request names besides the one that it asks for. Names that are none of ours are the
   * vendor's own, for callers that may use any model.
   * @param param where it stands
   * @throws GatewayError `key_not_allowed` where the caller may use some models only, and this is none of them; `not_served`
   * where it is one that this provider does not have
   */
  other(name: string, param: string, provider: Provider, caller?: Caller): string {
    const model = this.find(name, caller);
    const target = model?.targets.find((each) => each.provider.name === provider.name);
    if (target) return target.model;
    if (!caller?.models) return name;
    throw model ? otherNotHere(name, param) : otherNotAllowed(caller, name, param);
  }

  /** What a caller is told who may not use a model that there is; undefined: there is none of that name, or it may. */
  keptFrom(name: string, caller: Caller | undefined): GatewayError | undefined {
    return caller && this.find(name) && !this.find(name, caller) ? modelNotAllowed(caller, name) : undefined;
  }

  /** What the caller may use, in the order of gateway.yaml. */
  list(caller?: Caller): Model[] {
    return this.models.filter((model) => allowed(model, caller));
  }

  /** What of that it can use now: a model none of whose providers is switched on, nor any of its fallbacks', is left out. */
  usable(caller?: Caller): Model[] {
    const on = (model: Model | undefined) => model !== undefined && model.targets.length > 0;
    return this.list(caller).filter((model) => on(model) || model.fallback.some((name) => on(this.find(name, caller))));
  }

  /** Up to three names of such models that look like this one. */
  near(name: string, caller?: Caller): string[] {
    const wanted = name.toLowerCase();
    return this.usable(caller)
      .map((model) => ({ id: model.id, distance: distance(wanted, model.id.toLowerCase()) }))
      .filter(
        ({ id, distance }) => distance <= Math.max(2, Math.min(wanted.length, id.length) / 3) || related(wanted, id),
      )
      .sort((a, b) => a.distance - b.distance)
      .slice(0, 3)
      .map(({ id }) => id);
  }
}

/** The date that vendors put behind the name of a model's version. */
const DATE = /[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$/;

const allowed = (model: Model, caller: Caller | undefined): boolean =>
  !caller?.models || matchesAny(caller.models, model.id);

const related = (wanted: string, id: string): boolean =>
  wanted.length >= 4 && (id.includes(wanted) || wanted.includes(id));

/** Edits (insert, delete, replace, swap) between two short texts; long ones are cut, as only nearness is of interest. */
export function distance(a: string, b: string): number {
  const left = a.slice(0, 64);
  const right = b.slice(0, 64);
  let before: number[] = [];
  let row = Array.from({ length: right.length + 1 }, (_, j) => j);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const same = left[i - 1] === right[j - 1];
      let best = Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1];
      if (swapped) best = Math.min(best, (before[j - 2] ?? 0) + 1);
      next.push(best);
    }
    before = row;
    row = next;
  }
  return row[right.length] ?? 0;
}
