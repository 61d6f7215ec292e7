import { matchesAny } from "../core/glob.ts";
import { dropUndefined } from "../wire/values.ts";
import type { ConfigPath, Report } from "./problems.ts";
import type { GatewayFile } from "./schema.ts";
import { nearest, unknownNameMessage } from "./suggest.ts";
import { atPath, entries, isMap, items, type YamlValue } from "./tree.ts";
import type { ConfiguredPath } from "./types.ts";
import { formatCount, formatDuration, formatSize } from "./units.ts";

/** Settings without effect on the built-in provider, and why. */
const NOT_FOR_DEMO: readonly (readonly [path: readonly string[], why: string])[] = [
  [["websocket"], "takes no WebSockets"],
  [["forward"], "reads no headers"],
  [["header"], "reads no headers"],
  [["idempotency"], "does not recognise repeated requests"],
  [["vendor"], "costs nothing"],
  [["warm"], "has no TLS connections"],
  [["timeouts", "connect"], "is in this process"],
];

/** Reports whether a value disables a setting. */
const isOff = (value: YamlValue): boolean =>
  value === undefined || value === false || value === "off" || (Array.isArray(value) && value.length === 0);

/**
 * Finds settings without effect at their place, on which the operator relies. Accepts values of any shape, as schema errors
 * elsewhere must not hide these.
 */
export function checkIneffective(file: YamlValue, report: Report): void {
  for (const [name, entry] of entries(atPath(file, "providers"))) checkProvider(["providers", name], entry, report);
  for (const [id, entry] of entries(atPath(file, "models"))) {
    checkTargets(["models", id, "targets"], atPath(entry, "targets"), report);
    const fallback = items(atPath(entry, "fallback"));
    for (const [i, model] of fallback)
      if (fallback.some(([j, other]) => j < i && other === model))
        report({
          path: ["models", id, "fallback", i],
          message: `${JSON.stringify(model)} is listed twice here; keep one`,
        });
  }
}

function checkProvider(path: ConfigPath, entry: YamlValue, report: Report): void {
  if (!isMap(entry)) return;
  if (atPath(entry, "url") === "demo:") {
    for (const [setting, why] of NOT_FOR_DEMO)
      if (!isOff(atPath(entry, ...setting)))
        report({
          path: [...path, ...setting],
          key: true,
          // Warnings, as several providers may share such settings through an anchor; `websocket` is an error, as its path would
          // not be served.
          ...(setting[0] !== "websocket" && { severity: "warning" }),
          message: `${JSON.stringify(path.at(-1))} is the built-in provider, which ${why}: leave out "${setting.at(-1)}", or give the provider an http url`,
        });
  } else if ("header" in entry && !Object.keys(entry).some((name) => nearest(name, ["credential"])))
    report({
      path: [...path, "header"],
      key: true,
      message: '"header" has no effect without "credential"; leave it out, or add a credential',
    });
}

/** A duplicate target only doubles its weight; it is no second target to fall back to. */
function checkTargets(path: ConfigPath, list: YamlValue, report: Report): void {
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
export function checkOverload({ overload }: GatewayFile, written: YamlValue, report: Report): void {
  const { per_key: perKey, concurrency } = overload;
  if (atPath(written, "overload", "per_key") === undefined || concurrency === 0 || perKey <= concurrency) return;
  report({
    path: ["overload", "per_key"],
    message: `must not be more than concurrency (${concurrency}): more requests of one key never run at the same time; write off, or less`,
  });
}

/**
 * Finds timeouts that another one always ends first.
 * @param written the values of the file, without defaults
 */
export function checkTimeouts(
  { timeouts, health, providers, drain, linger, crash_drain: crashDrain }: GatewayFile,
  written: YamlValue,
  report: Report,
): void {
  const checkAt = (path: ConfigPath, times: Times, where: string) => {
    const isSet = (...name: string[]) => atPath(written, ...path, ...name) !== undefined;
    const { total, first_byte: firstByte } = times.timeouts;
    // A timeout for all attempts is often longer than one provider's total: only one set next to a shorter total was meant to
    // apply.
    for (const name of ["connect", "first_byte", "idle"] as const)
      if (
        isSet("timeouts", name) &&
        total > 0 &&
        times.timeouts[name] > total &&
        (where !== "" || isSet("timeouts", "total"))
      )
        report({
          path: [...path, "timeouts", name],
          message: `must not be longer than total (${formatDuration(total)})${where}, which ends the attempt before`,
        });
    if (isSet("health", "slow") && firstByte > 0 && times.slow >= firstByte)
      report({
        path: [...path, "health", "slow"],
        message: `must be shorter than first_byte of timeouts (${formatDuration(firstByte)})${where}, which ends the attempt before`,
      });
  };
  checkAt([], { timeouts, slow: health.slow }, "");
  for (const [name, { timeouts: own = {}, health: { slow = health.slow } = {} }] of Object.entries(providers))
    checkAt(["providers", name], { timeouts: { ...timeouts, ...dropUndefined(own) }, slow }, ", here or for all");
  if (atPath(written, "linger") !== undefined && drain > 0 && linger > drain)
    report({
      path: ["linger"],
      message: `must not be longer than drain (${formatDuration(drain)}), with which a stop ends`,
    });
  if (atPath(written, "crash_drain") !== undefined && drain > 0 && crashDrain > drain)
    report({
      path: ["crash_drain"],
      message: `must not be longer than drain (${formatDuration(drain)}), which is the most after a crash too`,
    });
}

/** Room in a head for the rest of its first line, and for headers. */
const REST_OF_HEAD = 1024;

/**
 * Finds limits of sizes that another one always reaches first.
 * @param written the values of the file, without defaults
 */
export function checkSizes({ connections, answers }: GatewayFile, written: YamlValue, report: Report): void {
  const { target, head_size: head } = connections;
  if (atPath(written, "connections", "target") !== undefined && target > head - REST_OF_HEAD)
    report({
      path: ["connections", "target"],
      message: `must be 1KiB less than head_size (${formatSize(head)}), which counts it and all headers; write less, or a larger head_size`,
    });
  if (atPath(written, "answers", "event") !== undefined && answers.event > answers.memory / 2)
    report({
      path: ["answers", "event"],
      message: `must not be more than half of memory (${formatSize(answers.memory)}), which one key may have; write less, or a larger memory`,
    });
}

interface Times {
  readonly timeouts: GatewayFile["timeouts"];
  readonly slow: number;
}

/** Finds models whose maximum output exceeds their context. */
export function checkOutputLimits({ models }: GatewayFile, report: Report): void {
  for (const [id, { context, output }] of Object.entries(models))
    if (context !== undefined && output !== undefined && output > context)
      report({
        path: ["models", id, "output"],
        severity: "warning",
        message: `output is larger than context, which is ${formatCount(context)}; are the two swapped?`,
      });
}

/**
 * Finds paths of keys that no mount serves.
 * @param keeps reports whether a protocol has stored responses below its paths
 */
export function checkKeyPaths(
  { keys }: GatewayFile,
  paths: readonly ConfiguredPath[],
  keeps: (protocol: string) => boolean,
  report: Report,
): void {
  for (const [name, key] of Object.entries(keys))
    for (const [i, pattern] of (key.paths ?? []).entries()) {
      const itself = pattern.replace(/^[A-Z]+ /, "");
      if (paths.some((path) => mayMatch(itself, path, keeps))) continue;
      const known = new Set(paths.map(({ path }) => path));
      report({ path: ["keys", name, "paths", i], message: unknownNameMessage("path", itself, known) });
    }
}

/** Reports whether a key's pattern may match a request to a path. */
function mayMatch(
  pattern: string,
  { path, protocol = "", serve, pass }: ConfiguredPath,
  keeps: (name: string) => boolean,
) {
  const open = path.endsWith("/*");
  const stem = open ? path.slice(0, -1) : `${path}/`;
  const below = open || serve !== undefined || keeps(protocol);
  const itself = open ? pass !== undefined && matchesAny([pattern], path.slice(0, -2)) : matchesAny([pattern], path);
  return itself || (below && matchesBelow(pattern, stem));
}

/** Reports whether a pattern matches some longer text that begins with this one. */
function matchesBelow(pattern: string, start: string): boolean {
  const star = pattern.indexOf("*");
  if (star < 0) return pattern.startsWith(start) && pattern.length > start.length;
  const head = pattern.slice(0, star);
  return head.startsWith(start) || start.startsWith(head);
}
