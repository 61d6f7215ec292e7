import type { Period } from "./calendar.ts";
import type { Limits } from "./limit-kinds.ts";
import type { Caller } from "./marketplace.ts";

export type { Budget, Limits } from "./limit-kinds.ts";

/** All limits of a gateway.yaml. */
export interface LimitTable {
  /** A key's own, where it says nothing. */
  readonly default?: Limits;
  readonly all?: Limits;
  readonly groups?: ReadonlyMap<string, Limits>;
  readonly models?: ReadonlyMap<string, Limits>;
  readonly providers?: ReadonlyMap<string, Limits>;
  /** Of keys by their ids. */
  readonly keys?: ReadonlyMap<string, Limits>;
}

/** Whose limits they are. */
export interface LimitLevel {
  readonly kind: "key" | "group" | "model" | "provider" | "all";
  /** Empty for `all`, and for all callers without a key. */
  readonly name: string;
  /** What people call it, where that is another: a key has an id. */
  readonly label?: string;
  /** Names its counts. */
  readonly scope: string;
  readonly limits: Limits;
}

/** What counts are kept under. */
export const scopeOf = (kind: LimitLevel["kind"], name: string): string => (kind === "all" ? kind : `${kind}:${name}`);

/** A group and those above it: `acme/research`, `acme`. */
export function groupsOf(group: string): string[] {
  const found = [group];
  for (let at = group.lastIndexOf("/"); at > 0; at = group.lastIndexOf("/", at - 1)) found.push(group.slice(0, at));
  return found;
}

/** The levels of one caller, by the model that it asks for. */
interface CallerLevels {
  readonly label: string | undefined;
  readonly group: string | undefined;
  /** Those that the key was given when it was made. */
  readonly limits: Limits | undefined;
  readonly own: readonly LimitLevel[];
  readonly byModel: Map<string, readonly LimitLevel[]>;
}

/** Which limits apply to whom. */
export class Levels {
  private readonly callers = new Map<string, CallerLevels>();
  private readonly providers: ReadonlyMap<string, LimitLevel>;
  private readonly models: ReadonlyMap<string, LimitLevel>;

  constructor(private readonly table: LimitTable = {}) {
    const levels = (kind: LimitLevel["kind"], of: ReadonlyMap<string, Limits> = new Map()) =>
      new Map([...of].flatMap(([name, limits]) => levelOf(kind, name, limits).map((level) => [name, level])));
    this.providers = levels("provider", table.providers);
    this.models = levels("model", table.models);
  }

  /**
   * Of a caller, its key first, then its groups from the innermost on, the model and all.
   * @param model its id; undefined: not known
   */
  of(caller: Caller | undefined, model?: string): readonly LimitLevel[] {
    const known = this.caller(caller);
    if (model === undefined) return known.own;
    const found = known.byModel.get(model);
    if (found) return found;
    const level = this.models.get(model);
    const levels = level ? [...known.own, level] : known.own;
    known.byModel.set(model, levels);
    return levels;
  }

  model(id: string): LimitLevel | undefined {
    return this.models.get(id);
  }

  provider(name: string): LimitLevel | undefined {
    return this.providers.get(name);
  }

  /** A level at which tokens or money count, which nobody knows of a request that passes unread. */
  unmeasured(caller: Caller | undefined, provider: string): LimitLevel | undefined {
    const levels = [...this.of(caller), this.provider(provider)];
    return levels.find((level) => level && (level.limits.tpm || level.limits.budgets?.some(({ soft }) => !soft)));
  }

  private caller(caller: Caller | undefined): CallerLevels {
    const id = caller?.id ?? "";
    const group = caller?.group;
    const known = this.callers.get(id);
    const limits = caller?.limits;
    const label = caller?.name;
    if (known && known.group === group && known.limits === limits && known.label === label) return known;
    const { groups, all = {} } = this.table;
    const key = keyLimits(this.table, id, limits);
    const own = [
      ...levelOf("key", id, key, label),
      ...(group === undefined ? [] : groupsOf(group).flatMap((name) => levelOf("group", name, groups?.get(name)))),
      ...levelOf("all", "", all),
    ];
    const made = { label, group, limits, own, byModel: new Map() };
    this.callers.set(id, made);
    return made;
  }
}

/**
 * What a key may use: what it was given, what gateway.yaml says of it, and what it says of all keys.
 * @param own those that it was given when it was made
 */
export const keyLimits = ({ keys, default: usual }: LimitTable, id: string, own?: Limits): Limits => ({
  ...usual,
  ...keys?.get(id),
  ...own,
});

/** Whether anything is limited. */
export const hasLimits = ({ default: usual, all, groups, models, providers, keys }: LimitTable): boolean =>
  [usual, all, ...[groups, models, providers, keys].flatMap((each) => (each ? [...each.values()] : []))].some(
    (limits) => levelOf("all", "", limits).length > 0,
  );

/** The kinds of periods that budgets of gateway.yaml are for. */
export function periodsOf({ default: usual, all, groups, models, providers, keys }: LimitTable): ReadonlySet<Period> {
  const named = [groups, models, providers, keys].flatMap((each) => (each ? [...each.values()] : []));
  return new Set([usual, all, ...named].flatMap((limits) => (limits?.budgets ?? []).map(({ per }) => per)));
}

/** A level that limits nothing is none. */
function levelOf(kind: LimitLevel["kind"], name: string, limits: Limits = {}, label?: string): LimitLevel[] {
  const { rpm = 0, tpm = 0, concurrency = 0, budgets = [] } = limits;
  if (rpm + tpm + concurrency + budgets.length === 0) return [];
  const level = { kind, name, scope: scopeOf(kind, name), limits: { rpm, tpm, concurrency, budgets } };
  return [label === undefined || label === name ? level : { ...level, label }];
}
