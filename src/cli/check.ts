import { existsSync } from "node:fs";
import { relative, resolve } from "node:path";
import { parseArgs } from "node:util";
import { loadConfig } from "../config/load.ts";
import type { Vocabulary } from "../config/plugins.ts";
import { ConfigError, formatProblem, offNotice, type Problem } from "../config/problems.ts";
import type { Config } from "../config/types.ts";
import type { PluginProblem } from "../loader/problems.ts";
import { printError, toProblem } from "../text/format-error.ts";
import { countNoun } from "../text/table.ts";
import { help } from "./help/check.ts";
import type { Terminal } from "./verb.ts";

/**
 * Checks a file, then builds its plugins without serving. Exit codes: 0 valid, 1 problems, 2 usage or no such file.
 * @param rehearse builds and starts every plugin of a valid file, and returns their problems
 * @param doubts returns warnings about the file, and problems of its environment
 */
export async function runCheck(
  args: readonly string[],
  io: Terminal,
  vocabulary: Vocabulary,
  rehearse: (config: Config) => Promise<PluginProblem[]>,
  doubts: (config: Config) => Promise<Problem[]>,
): Promise<number> {
  const parsed = parseArguments(args);
  if (typeof parsed === "string") return printUsage(io, parsed);
  const file = resolve(io.folder, parsed.file);
  const below = relative(io.folder, file);
  const name = below.startsWith("..") ? file : below;
  if (!existsSync(file)) return printUsage(io, `there is no file ${name}`);
  try {
    const config = await loadConfig(file, vocabulary, io.env);
    const found = await rehearse(config);
    if (found.length > 0) throw new ConfigError(found.map(toProblem));
    const warnings = [...config.warnings, ...(await doubts(config))];
    const errors = warnings.filter(({ severity }) => severity === "error");
    if (errors.length > 0) throw new ConfigError(errors);
    if (parsed.json) io.out(JSON.stringify({ ok: true, problems: warnings }));
    else {
      for (const warning of warnings)
        if (!offNotices(config).has(warning.message)) io.err(`${formatProblem(warning)}\n`);
      io.out(`${name}: ok, ${summary(config)}`);
    }
    return 0;
  } catch (thrown) {
    if (!(thrown instanceof ConfigError)) throw thrown;
    const { problems } = thrown;
    printError(thrown, io, parsed.json);
    if (!parsed.json) {
      io.err(`\n${name}: ${countNoun(problems.length, "problem")}`);
    }
    return 1;
  }
}

function parseArguments(args: readonly string[]): { file: string; json: boolean } | string {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { json: { type: "boolean", default: false } },
      allowPositionals: true,
    });
    if (positionals.length > 1) return "one file at a time";
    return { file: positionals[0] ?? "gateway.yaml", json: values.json };
  } catch (thrown) {
    return (thrown as Error).message;
  }
}

function printUsage(io: Terminal, wrong: string): number {
  io.err(`${wrong}\nusage: ${help}`);
  return 2;
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
