import type { Limits } from "../core/limit-kinds.ts";
import { hasHardBudget, LIMIT_PLUGINS, limitsAnything } from "../core/limits.ts";
import * as build from "./build.ts";
import type { Chains } from "./plugins.ts";
import type { ConfigPath, Report } from "./problems.ts";
import type { GatewayFile } from "./schema.ts";
import type { ConfiguredBudget, ConfiguredPath, StoreSettings } from "./types.ts";
import { formatMoney } from "./units.ts";

/** Limits, and their path in the file. */
interface LimitsPlace extends Pick<ConfiguredBudget, "models" | "provider"> {
  readonly path: ConfigPath;
  readonly limits: Limits;
}

/** Finds limits that no plugin would enforce: operators rely on them with untrusted callers. */
export function checkLimits(file: GatewayFile, paths: readonly ConfiguredPath[], chains: Chains, report: Report): void {
  const place = limitPlaces(file).find(({ limits }) => limitsAnything(limits));
  if (!place) return;
  for (const { use, message } of unlimitedPaths(paths, (use) => chains.get(use)?.plugins ?? [])) {
    const chain = chains.get(use);
    report({
      path: chain?.path ?? place.path,
      key: chain?.path?.[0] === "chains",
      message: `limits are set, and ${message}`,
    });
  }
}

/** Finds sums without effect because of another one of the same level and period. */
export function checkBudgets(file: GatewayFile, report: Report): void {
  for (const { path, limits } of limitPlaces(file)) {
    const { budgets = [] } = limits;
    for (const [i, { nano, per, soft }] of budgets.entries()) {
      const others = budgets.filter((other, j) => j !== i && other.per === per && other.soft === soft);
      // Among soft sums each larger one is reported later; among hard ones only the smallest has an effect.
      const [other] = others.filter((each) => each.nano === nano || (!soft && each.nano < nano));
      if (!other || (other.nano === nano && budgets.indexOf(other) > i)) continue;
      const message =
        other.nano === nano
          ? `${formatMoney(other)} is listed twice here; keep one`
          : `has no effect beside ${formatMoney(other)}; keep one of them`;
      report({ path: [...path, "budget", i], message });
    }
  }
}

const isPostgres = (ledger: string): boolean => /^postgres(?:ql)?:/.test(ledger);

/** Returns why several gateways would count limits separately; undefined: they would not. */
export function unsharedLimitsReason(
  { ledger, limits }: Pick<StoreSettings, "ledger" | "limits">,
  instances: number | undefined,
): string | undefined {
  if (limits !== "memory" || (instances === undefined ? !isPostgres(ledger) : instances === 1)) return undefined;
  const why =
    instances === undefined ? "a ledger in PostgreSQL is for several gateways" : `there are ${instances} gateways`;
  return `${why}, and each counts limits in its own memory, so a client gets each limit once per gateway: set store: limits: redis://HOST, or instances: 1 if there is only one gateway`;
}

/** Reports limits that several gateways would count separately. */
export function checkLimitSharing(
  file: GatewayFile,
  { ledger = "", limits }: { ledger?: string | undefined; limits?: string | undefined },
  report: Report,
): void {
  if (limits === undefined || !limitPlaces(file).some(({ limits }) => limitsAnything(limits))) return;
  const { instances } = file;
  // Where it is absent, the ledger says that there are several.
  const path = instances === undefined ? ["store", "ledger"] : ["instances"];
  const message = unsharedLimitsReason({ ledger, limits }, instances);
  if (message !== undefined) report({ path, message });
  if (limits !== "memory" && !isPostgres(ledger) && (instances ?? 1) > 1)
    report({
      path,
      message: `budgets count what is in the ledger, so all ${instances} gateways need the same ledger, and a file cannot be shared between machines: set store: ledger: postgres://HOST`,
      severity: "warning",
    });
}

/** Returns paths on which nothing enforces limits, the first of each chain. */
export function unlimitedPaths(
  paths: readonly ConfiguredPath[],
  pluginsOf: (use: string) => readonly string[],
): { use: string; message: string }[] {
  const seen = new Set<string>();
  return paths.flatMap(({ path, use, serve }) => {
    if (serve !== undefined || seen.has(use)) return [];
    seen.add(use);
    const missing = LIMIT_PLUGINS.filter((name) => !pluginsOf(use).includes(name));
    if (missing.length === 0) return [];
    const plugins = missing.map((name) => JSON.stringify(name)).join(" and ");
    const behind = 'after "auth" and "models"';
    const where = missing.length === 2 ? `"limits" ${behind}` : missing[0] === "limits" ? behind : "at its end";
    return [{ use, message: `nothing enforces them on ${path}: add ${plugins} to its chain, ${where}` }];
  });
}

/** Returns everything that limits money. */
export function configuredBudgets(file: GatewayFile): ConfiguredBudget[] {
  return limitPlaces(file).flatMap(({ path: _, limits: { budgets = [] }, ...of }) =>
    budgets.length === 0 ? [] : [{ ...of, hard: hasHardBudget(budgets) }],
  );
}

function limitPlaces(file: GatewayFile): LimitsPlace[] {
  const { default: usual, all, groups, models, providers, keys } = build.limits(file);
  const each = (section: readonly string[], of: ReadonlyMap<string, Limits> = new Map()) =>
    [...of].map(([name, limits]) => ({ name, place: { limits, path: [...section, name] } }));
  return [
    ...(usual ? [{ path: ["limits", "default"], limits: usual }] : []),
    ...(all ? [{ path: ["limits", "all"], limits: all }] : []),
    ...each(["limits", "groups"], groups).map(({ place }) => place),
    ...each(["limits", "models"], models).map(({ name, place }) => ({ ...place, models: [name] })),
    ...each(["limits", "providers"], providers).map(({ name, place }) => ({ ...place, provider: name })),
    ...each(["keys"], keys).map(({ name, place }) => {
      const only = file.keys[name]?.models;
      return only ? { ...place, models: only } : place;
    }),
  ];
}
