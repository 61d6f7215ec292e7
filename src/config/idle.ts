import { matchesAny } from "../core/glob.ts";
import type { ConfigPath, Report } from "./problems.ts";
import type { File } from "./schema.ts";
import { nearest, unknown } from "./suggest.ts";
import { at, entries, isMap, items, type Tree } from "./tree.ts";
import type { ConfiguredPath } from "./types.ts";
import { countWords, durationWords } from "./units.ts";

/** Settings without effect on the built-in provider, and why. */
const NOT_OF_DEMO: readonly (readonly [path: readonly string[], why: string])[] = [
  [["websocket"], "takes no WebSockets"],
  [["forward"], "reads no headers"],
  [["header"], "reads no headers"],
  [["idempotency"], "does not recognise repeated requests"],
  [["vendor"], "costs nothing"],
  [["warm"], "has no TLS connections"],
  [["timeouts", "connect"], "is in this process"],
];

/** Reports whether a value disables a setting. */
const isOff = (value: Tree): boolean =>
  value === undefined || value === false || value === "off" || (Array.isArray(value) && value.length === 0);

/**
 * Finds settings without effect at their place, on which the operator relies. Accepts values of any shape, as schema errors
 * elsewhere must not hide these.
 */
export function checkIdle(file: Tree, report: Report): void {
  for (const [name, entry] of entries(at(file, "providers"))) checkProvider(["providers", name], entry, report);
  for (const [id, entry] of entries(at(file, "models"))) {
    checkTargets(["models", id, "targets"], at(entry, "targets"), report);
    const fallback = items(at(entry, "fallback"));
    for (const [i, model] of fallback)
      if (fallback.some(([j, other]) => j < i && other === model))
        report({
          path: ["models", id, "fallback", i],
          message: `${JSON.stringify(model)} is listed twice here; keep one`,
        });
  }
}

function checkProvider(path: ConfigPath, entry: Tree, report: Report): void {
  if (!isMap(entry)) return;
  if (at(entry, "url") === "demo:") {
    for (const [setting, why] of NOT_OF_DEMO)
      if (!isOff(at(entry, ...setting)))
        report({
          path: [...path, ...setting],
          key: true,
          // Warnings, as several providers may share such settings through an anchor; `websocket` is an error, as its path would
          // not be served.
          ...(setting[0] !== "websocket" && { severity: "warning" }),
          message: `${JSON.stringify(path.at(-1))} is the built-in provider, which ${why}: "${setting.at(-1)}" goes with an http address`,
        });
  } else if ("header" in entry && !Object.keys(entry).some((name) => nearest(name, ["credential"])))
    report({
      path: [...path, "header"],
      key: true,
      message: '"header" goes with "credential"; leave it out, or add that',
    });
}

/** A duplicate target only doubles its weight; it is no second target to fall back to. */
function checkTargets(path: ConfigPath, list: Tree, report: Report): void {
  const seen = new Set<string>();
  for (const [i, written] of items(list)) {
    const { to, ...settings } = isMap(written) ? written : { to: written };
    const own = Object.entries({ weight: 1, ...settings }).sort(([a], [b]) => (a < b ? -1 : 1));
    const target = JSON.stringify([to, own]);
    if (seen.has(target))
      report({
        path: [...path, i],
        message: `${JSON.stringify(to)} is listed twice here; keep one, with { to: ${String(to)}, weight: 2 } for twice the share`,
      });
    seen.add(target);
  }
}

/**
 * Finds a per-key limit above the total limit.
 * @param written the values of the file, without defaults
 */
export function checkOverload({ overload }: File, written: Tree, report: Report): void {
  const { per_key: perKey, concurrency } = overload;
  if (at(written, "overload", "per_key") === undefined || concurrency === 0 || perKey <= concurrency) return;
  report({
    path: ["overload", "per_key"],
    message: `must not be more than concurrency (${concurrency}): more requests of one key never run at the same time; write off, or less`,
  });
}

/**
 * Finds timeouts that another one always ends first.
 * @param written the values of the file, without defaults
 */
export function checkTimes({ timeouts, health, providers, drain, linger }: File, written: Tree, report: Report): void {
  const look = (path: ConfigPath, times: Times, where: string) => {
    const says = (...name: string[]) => at(written, ...(path as string[]), ...name) !== undefined;
    const { total, first_byte: firstByte } = times.timeouts;
    // A timeout for all attempts is often longer than one provider's total: only one set next to a shorter total was meant to
    // apply.
    for (const name of ["connect", "first_byte", "idle"] as const)
      if (
        says("timeouts", name) &&
        total > 0 &&
        times.timeouts[name] > total &&
        (where === "" ? says("timeouts", "total") : true)
      )
        report({
          path: [...path, "timeouts", name],
          message: `must not be longer than total (${durationWords(total)})${where}, which ends the attempt before`,
        });
    if (says("health", "slow") && firstByte > 0 && times.slow >= firstByte)
      report({
        path: [...path, "health", "slow"],
        message: `must be shorter than first_byte of timeouts (${durationWords(firstByte)})${where}, which ends the attempt before`,
      });
  };
  look([], { timeouts, slow: health.slow }, "");
  for (const [name, { timeouts: own = {}, health: { slow = health.slow } = {} }] of Object.entries(providers))
    look(["providers", name], { timeouts: { ...timeouts, ...definite(own) }, slow }, ", here or for all");
  if (at(written, "linger") !== undefined && drain > 0 && linger > drain)
    report({
      path: ["linger"],
      message: `must not be longer than drain (${durationWords(drain)}), with which a stop ends`,
    });
}

interface Times {
  readonly timeouts: File["timeouts"];
  readonly slow: number;
}

const definite = <T extends object>(members: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };

/** Finds models whose maximum output exceeds their context. */
export function checkLengths({ models }: File, report: Report): void {
  for (const [id, { context, output }] of Object.entries(models))
    if (context !== undefined && output !== undefined && output > context)
      report({
        path: ["models", id, "output"],
        severity: "warning",
        message: `output is larger than context, which is ${countWords(context)}; are the two swapped?`,
      });
}

/**
 * Finds paths of keys that no mount serves.
 * @param keeps reports whether a protocol has stored responses below its paths
 */
export function checkKeyPaths(
  { keys }: File,
  paths: readonly ConfiguredPath[],
  keeps: (protocol: string) => boolean,
  report: Report,
): void {
  for (const [name, key] of Object.entries(keys))
    for (const [i, pattern] of (key.paths ?? []).entries()) {
      const itself = pattern.replace(/^[A-Z]+ /, "");
      if (paths.some((path) => isMeant(itself, path, keeps))) continue;
      const known = new Set(paths.map(({ path }) => path));
      report({ path: ["keys", name, "paths", i], message: unknown("path", itself, known) });
    }
}

/** Reports whether a key's pattern may match a request to a path. */
function isMeant(
  pattern: string,
  { path, protocol = "", serve, pass }: ConfiguredPath,
  keeps: (name: string) => boolean,
) {
  const open = path.endsWith("/*");
  const stem = open ? path.slice(0, -1) : `${path}/`;
  const below = open || serve !== undefined || keeps(protocol);
  const itself = open ? pass !== undefined && matchesAny([pattern], path.slice(0, -2)) : matchesAny([pattern], path);
  return itself || (below && beginsWith(pattern, stem));
}

/** Reports whether a pattern matches some longer text that begins with this one. */
function beginsWith(pattern: string, start: string): boolean {
  const star = pattern.indexOf("*");
  if (star < 0) return pattern.startsWith(start) && pattern.length > start.length;
  const head = pattern.slice(0, star);
  return head.startsWith(start) || start.startsWith(head);
}
