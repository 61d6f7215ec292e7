import { existsSync } from "node:fs";
import { loadConfig } from "../config/load.ts";
import type { Extensions } from "../config/plugins.ts";
import { ConfigError, displayPath, formatProblem, offNotice, type Problem } from "../config/problems.ts";
import type { Config } from "../config/types.ts";
import type { PluginProblem } from "../loader/problems.ts";
import { printError, toProblem, UsageError } from "../text/format-error.ts";
import { countNoun } from "../text/table.ts";
import { parseVerbArguments, type Terminal } from "./verb.ts";

/**
 * Checks a file, then builds its plugins without serving. Exit codes: 0 valid, 1 problems.
 * @param file absolute
 * @param rehearse builds and starts every plugin of a valid file, and returns their problems
 * @param doubts returns warnings about the file, and problems of its environment
 * @throws UsageError, also if there is no such file
 */
export async function runCheck(
  args: readonly string[],
  io: Terminal,
  file: string,
  extensions: Extensions,
  rehearse: (config: Config) => Promise<PluginProblem[]>,
  doubts: (config: Config) => Promise<Problem[]>,
): Promise<number> {
  const { json = false } = parseVerbArguments(args, { json: { type: "boolean" } }).values;
  const name = displayPath(file, io.folder);
  if (!existsSync(file)) throw new UsageError(`there is no file ${name}`);
  try {
    const config = await loadConfig(file, extensions, io.env);
    const found = await rehearse(config);
    if (found.length > 0) throw new ConfigError(found.map(toProblem));
    const warnings = [...config.warnings, ...(await doubts(config))];
    const errors = warnings.filter(({ severity }) => severity === "error");
    if (errors.length > 0) throw new ConfigError(errors);
    if (json) io.out(JSON.stringify({ ok: true, problems: warnings }));
    else {
      for (const warning of warnings)
        if (!offNotices(config).has(warning.message)) io.err(`${formatProblem(warning)}\n`);
      io.out(`${name}: ok, ${summary(config)}`);
    }
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    const { problems } = thrown;
    printError(thrown, io, json);
    if (!json) {
      io.err(`\n${name}: ${countNoun(problems.length, "problem")}`);
    }
    return 1;
  }
}

/** Returns the notices of parts that are off, which the summary contains already. */
function offNotices({ providers, keys }: Config): Set<string> {
  const noticed = (kind: "provider" | "key") => (part: { name: string; off?: string }) =>
    part.off === undefined ? [] : offNotice(kind, part.name, part.off);
  return new Set([...providers.flatMap(noticed("provider")), ...keys.flatMap(noticed("key"))]);
}

function summary({ providers, models, keys, paths }: Config): string {
  return [
    countNoun(providers.length, "provider") + describeOff(providers),
    countNoun(models.length, "model"),
    countNoun(keys.length, "key") + describeOff(keys),
    countNoun(paths.length, "path"),
  ].join(", ");
}

/** Describes what is off, and why: `(1 off: name, NAME is not set)`. */
function describeOff(parts: readonly { name: string; off?: string }[]): string {
  const out = parts.filter((part) => part.off !== undefined);
  return out.length === 0 ? "" : ` (${out.length} off: ${out.map((part) => `${part.name}, ${part.off}`).join("; ")})`;
}
