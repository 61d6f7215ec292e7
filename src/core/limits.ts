import { internalize } from "../wire/internalize.ts";
import { Calendar, type Period } from "./calendar.ts";
import type { Caller } from "./caller.ts";
import type { Budget, Limits } from "./limit-kinds.ts";

/** All limits of a gateway.yaml. */
export interface LimitTable {
  /** Defaults for a key. */
  readonly default?: Limits;
  readonly all?: Limits;
  readonly groups?: ReadonlyMap<string, Limits>;
  readonly models?: ReadonlyMap<string, Limits>;
  readonly providers?: ReadonlyMap<string, Limits>;
  /** By key id. */
  readonly keys?: ReadonlyMap<string, Limits>;
}

/** The limits of one key, group, model, provider, or of all. */
export interface LimitLevel {
  readonly kind: "key" | "group" | "model" | "provider" | "all";
  /** Empty for `all`, and for callers without a key. */
  readonly name: string;
  /** The name shown to people, if it differs: a key's `name` is its id. */
  readonly label?: string;
  /** The name under which it is counted. */
  readonly scope: string;
  readonly limits: Limits;
}

/** Returns the name under which a level is counted. */
export const limitScope = (kind: LimitLevel["kind"], name: string): string =>
  kind === "all" ? kind : `${kind}:${name}`;

/** Returns the same for what is looked up by each request. Not for sums of very many keys: a new text takes twenty times as long. */
const requestScope: typeof limitScope = (kind, name) => internalize(limitScope(kind, name));

/** Returns a group and its parents: `acme/research`, `acme`. */
export function groupAndParents(group: string): string[] {
  const found = [group];
  for (let at = group.lastIndexOf("/"); at > 0; at = group.lastIndexOf("/", at - 1)) found.push(group.slice(0, at));
  return found;
}

/** The levels of one caller, by requested model. */
interface CallerLevels {
  readonly label: string | undefined;
  readonly group: string | undefined;
  /** Those that the key was given when it was created. */
  readonly limits: Limits | undefined;
  /** Where its spending counts, limited or not: key, groups and all. */
  readonly scopes: readonly string[];
  readonly withoutModel: readonly LimitLevel[];
  readonly byModel: Map<string, readonly LimitLevel[]>;
}

/** Number of callers whose levels are kept: a plugin may name any number of them. */
const MAX_CALLERS = 10_000;

/** The plugins that a chain needs to enforce limits. */
export const LIMIT_PLUGINS: readonly string[] = ["limits", "usage"];

/** Determines which limits apply to a request. */
export class Levels {
  private readonly callers = new Map<string, CallerLevels>();
  private readonly providers: ReadonlyMap<string, LimitLevel>;
  private readonly models: ReadonlyMap<string, LimitLevel>;
  /** The scopes of models and providers, by their names. */
  private readonly modelScopes = new Map<string, string>();
  private readonly providerScopes = new Map<string, string>();

  constructor(
    private readonly table: LimitTable = {},
    /** The periods of budgets. */
    readonly calendar = new Calendar(),
  ) {
    const levels = (kind: LimitLevel["kind"], of: ReadonlyMap<string, Limits> = new Map()) =>
      new Map(
        [...of].flatMap(([name, limits]) => levelsFor(requestScope, kind, name, limits).map((level) => [name, level])),
      );
    this.providers = levels("provider", table.providers);
    this.models = levels("model", table.models);
  }

  /**
   * Returns the levels of a request: the key, its groups from the innermost, all, and the model.
   * @param model its id; undefined: not known
   */
  forRequest(caller: Caller | undefined, model?: string): readonly LimitLevel[] {
    const known = this.caller(caller);
    if (model === undefined) return known.withoutModel;
    return known.byModel.getOrInsertComputed(model, () => {
      const level = this.models.get(model);
      return level ? [...known.withoutModel, level] : known.withoutModel;
    });
  }

  /** Returns the levels of a request without its model, for a report on very many callers: they do not displace those of requests. */
  forReport(caller: Caller): readonly LimitLevel[] {
    return this.makeLevels(caller, limitScope).withoutModel;
  }

  /** Returns where the cost of a request counts, limited or not, as in the ledger. */
  scopes(caller: Caller | undefined, model: string, provider: string): string[] {
    const modelScope = this.modelScopes.getOrInsertComputed(model, (name) => requestScope("model", name));
    const providerScope = this.providerScopes.getOrInsertComputed(provider, (name) => requestScope("provider", name));
    return [...this.caller(caller).scopes, modelScope, providerScope];
  }

  model(id: string): LimitLevel | undefined {
    return this.models.get(id);
  }

  provider(name: string): LimitLevel | undefined {
    return this.providers.get(name);
  }

  /** Returns a level that limits tokens or money, which cannot be measured for a passthrough request. */
  unmeasured(caller: Caller | undefined, provider: string): LimitLevel | undefined {
    const levels = [...this.forRequest(caller), this.provider(provider)];
    return levels.find((level) => level && (level.limits.tpm || hasHardBudget(level.limits.budgets)));
  }

  private caller(caller: Caller | undefined): CallerLevels {
    const { id = "", group, limits, name: label } = caller ?? {};
    const known = this.callers.get(id);
    if (known && known.group === group && known.limits === limits && known.label === label) return known;
    const made = this.makeLevels(caller, requestScope);
    if (!known && this.callers.size >= MAX_CALLERS) this.callers.delete(this.callers.keys().next().value as string);
    this.callers.set(id, made);
    return made;
  }

  private makeLevels(caller: Caller | undefined, scopeOf: typeof limitScope): CallerLevels {
    const { id = "", group, limits, name: label } = caller ?? {};
    const { groups, all = {} } = this.table;
    const key = keyLimits(this.table, id, limits);
    const groupNames = group === undefined ? [] : groupAndParents(group);
    const withoutModel = [
      ...levelsFor(scopeOf, "key", id, key, label),
      ...groupNames.flatMap((name) => levelsFor(scopeOf, "group", name, groups?.get(name))),
      ...levelsFor(scopeOf, "all", "", all),
    ];
    const scopes = [scopeOf("key", id), ...groupNames.map((name) => scopeOf("group", name)), scopeOf("all", "")];
    return { label, group, limits, scopes, withoutModel, byModel: new Map() };
  }
}

/**
 * Returns the limits of a key: its own, then gateway.yaml's for this key, then gateway.yaml's defaults.
 * @param own those that it was given when it was created
 */
export const keyLimits = ({ keys, default: defaults }: LimitTable, id: string, own?: Limits): Limits => ({
  ...defaults,
  ...keys?.get(id),
  ...own,
});

/** Reports whether requests are refused once one of these budgets is spent. */
export const hasHardBudget = (budgets: readonly Budget[] = []): boolean => budgets.some(({ soft }) => !soft);

/** Reports whether any limit is configured. */
export const hasLimits = (table: LimitTable): boolean => limitsIn(table).some(limitsAnything);

/** Returns the periods of all budgets in gateway.yaml. */
export const budgetPeriods = (table: LimitTable): ReadonlySet<Period> =>
  new Set(limitsIn(table).flatMap(({ budgets = [] }) => budgets.map(({ per }) => per)));

/** Reports whether anything is limited: 0 is no limit. */
export const limitsAnything = ({ rpm = 0, tpm = 0, concurrency = 0, budgets = [] }: Limits): boolean =>
  rpm + tpm + concurrency + budgets.length > 0;

function limitsIn({ default: defaults = {}, all = {}, groups, models, providers, keys }: LimitTable): Limits[] {
  const named = [groups, models, providers, keys].flatMap((each) => (each ? [...each.values()] : []));
  return [defaults, all, ...named];
}

/** Returns no level if nothing is limited. */
function levelsFor(
  scopeOf: typeof limitScope,
  kind: LimitLevel["kind"],
  name: string,
  limits: Limits = {},
  label?: string,
): LimitLevel[] {
  if (!limitsAnything(limits)) return [];
  const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
  const level = { kind, name, scope: scopeOf(kind, name), limits: { rpm, tpm, concurrency, budgets } };
  return [label === undefined || label === name ? level : { ...level, label }];
}
