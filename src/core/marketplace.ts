import type { Price } from "./usage.ts";

/** Who holds a gateway key. */
export interface Caller {
  /** The key's public id, safe in logs. */
  id: string;
  /** The name the operator gave it. */
  name: string;
  /** Model names it may use; undefined: all. */
  models?: readonly string[];
  /** True: it may spend up to a limit only. */
  budgeted?: true;
}

/** An account at a vendor's address, as gateway.yaml tells. */
export interface Provider {
  name: string;
  /** Address that ends with the version segment, without a trailing slash. */
  url: URL;
  /** What we show the provider; undefined: nothing is sent. */
  credential?: string;
  /** Header for the credential, where it is not the protocol's usual one. */
  header?: string;
  /** Protocol names, best first. */
  speaks: readonly string[];
  /** Client headers that go upstream besides the protocol's own. */
  forward: readonly string[];
  timeouts: Timeouts;
}

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
  /** The protocol to speak there, whatever the client speaks. */
  via?: string;
  /** What a translation must know of the model there. */
  facts?: Facts;
}

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
  price: Price;
  targets: readonly Target[];
  fallback: readonly string[];
}

/** Facts about a target that the mapping needs; from gateway.yaml, with defaults that let the vendor judge. */
export interface Facts {
  /** False: refuses temperature, top_p and top_k. */
  sampling?: boolean;
  /** How thinking is asked for: tokens, the model's own choice with an effort, a level, or not at all. */
  thinking?: "budget" | "adaptive" | "level" | "none";
  /** The longest answer in tokens. */
  output?: number;
  /** True: takes system messages between turns. */
  system_in_place?: boolean;
  /** True: continues an assistant's turn at the end. */
  prefill?: boolean;
}

/** The list of models that clients may name. */
export class Marketplace {
  private readonly byName = new Map<string, Model>();
  /** Aliases with a `*`, which stands for any text; the one with most letters first. */
  private readonly byPattern: { pattern: RegExp; length: number; model: Model }[] = [];

  constructor(readonly models: readonly Model[]) {
    for (const model of models) {
      this.byName.set(model.id, model);
      for (const alias of model.aliases) {
        if (alias.includes("*")) this.byPattern.push({ pattern: patternOf(alias), length: alias.length, model });
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

  /** What the caller may use, in the order of gateway.yaml. */
  list(caller?: Caller): Model[] {
    return this.models.filter((model) => allowed(model, caller));
  }

  /** Up to three names the caller may use that look like this one. */
  near(name: string, caller?: Caller): string[] {
    const wanted = name.toLowerCase();
    return this.list(caller)
      .map((model) => ({ id: model.id, distance: distance(wanted, model.id.toLowerCase()) }))
      .filter(
        ({ id, distance }) => distance <= Math.max(2, Math.min(wanted.length, id.length) / 3) || related(wanted, id),
      )
      .sort((a, b) => a.distance - b.distance)
      .slice(0, 3)
      .map(({ id }) => id);
  }
}

const patternOf = (alias: string): RegExp =>
  new RegExp(
    `^${alias
      .split("*")
      .map((text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&"))
      .join(".*")}$`,
    "s",
  );

const allowed = (model: Model, caller: Caller | undefined): boolean =>
  !caller?.models || caller.models.includes(model.id);

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
