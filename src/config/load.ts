import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileProblem } from "../core/file-problem.ts";
import type { StoreLocation } from "../store/postgres/place.ts";
import { pick } from "../wire/values.ts";
import * as build from "./build.ts";
import { checkChains } from "./chain-checks.ts";
import { fileEntries } from "./file-entries.ts";
import { checkHealth } from "./health.ts";
import {
  checkIneffective,
  checkKeyPaths,
  checkOutputLimits,
  checkOverload,
  checkSizes,
  checkTimeouts,
} from "./ineffective.ts";
import { allowedValues, explainIssues } from "./issues.ts";
import { checkBudgets, checkLimitSharing, checkLimits, configuredBudgets } from "./limits.ts";
import { checkNames } from "./names.ts";
import { type Chains, checkPlugins, type Extensions, type ListedPlugins } from "./plugins.ts";
import { YamlSource } from "./positions.ts";
import {
  ConfigError,
  type ConfigPath,
  displayPath,
  type Finding,
  type Problem,
  type Report,
  sortProblems,
} from "./problems.ts";
import { DEFAULT_CHAINS, FileSchema, type GatewayFile, PATH_KINDS, SERVED_PATHS } from "./schema.ts";
import { atPath, entries, isMap, type YamlValue } from "./tree.ts";
import { type Config, PLAIN_SECTIONS } from "./types.ts";
import { type ConfigValues, ValueReader } from "./values.ts";

/**
 * Loads gateway.yaml: shape, names, plugin options, secrets and addresses, then defaults.
 * @param folder the base of relative paths in it
 * @param written its content, if it has been read already
 * @throws ConfigError with all errors, in the order of the file; of YAML syntax errors only the first
 */
export async function loadConfig(
  file: string,
  extensions: Extensions,
  env: NodeJS.ProcessEnv = process.env,
  folder = dirname(resolve(file)),
  written?: string,
): Promise<Config> {
  const full = resolve(file);
  const text = written ?? readConfigText(full);
  const source = new YamlSource(displayPath(full), text);
  const values = withoutExtras(source.values);
  const findings: Finding[] = [];
  const report = (finding: Finding) => void findings.push(finding);
  if (source.problems.some((problem) => problem.severity === "error") && source.values === undefined)
    throw new ConfigError(source.problems);
  if (isEmpty(source)) throw emptyError(full);

  // A gateway that serves loads a large file in three turns of its event loop.
  await nextTurn();
  const shape = FileSchema.safeParse(values);
  if (!shape.success) explainIssues(shape.error.issues, FileSchema, values).forEach(report);
  const named = namedChains(values);
  const chains: Chains = new Map([...named, ...inlineChains(values)]);
  const protocols = [...extensions.protocols.keys()];
  checkNames(values, extensions.protocols, [...named.keys()], report);
  checkIneffective(values, report);
  const reading = new ValueReader(values, env, folder, report);
  const { plugins, loaded } = await checkPlugins(values, chains, defaultPlugins(values), extensions, {
    env,
    folder,
    report,
    place: (path) => formatPosition(source.position({ path, key: true })),
  });
  source.setEnumeratedValues(([section, name, ...path]) => {
    const schema = section === "plugins" ? loaded.get(String(name))?.options : undefined;
    return schema ? allowedValues(schema, path) : [];
  });

  const paths = shape.success ? build.configuredPaths(shape.data, extensions.protocols) : [];
  if (shape.success && findings.every(({ severity }) => severity === "warning"))
    checkChains(paths, chains, loaded, report);
  if (shape.success) checkSections(shape.data, { values, reading, paths, chains, extensions, report });

  await nextTurn();
  const problems = sortProblems([...source.problems, ...findings.map((finding) => source.locate(finding))]);
  const errors = problems.filter((problem) => problem.severity === "error");
  if (!shape.success || errors.length > 0) throw new ConfigError(errors);
  return {
    ...{ file: full, folder, text, masked: source.masked },
    ...toSettings(shape.data, reading.values, protocols),
    models: build.configuredModels(shape.data, (id) => source.position({ path: ["models", id], key: true })),
    plugins,
    chains: new Map([...chains].map(([name, chain]) => [name, chain.plugins])),
    paths,
    pathsOff: build.removedPaths(shape.data, extensions.protocols),
    written: fileEntries(values),
    notices: problems.map((problem) => problem.message),
    warnings: problems,
  };
}

/** Checks sections with a valid shape, separately and against each other. */
function checkSections(
  file: GatewayFile,
  {
    values,
    reading,
    paths,
    chains,
    extensions,
    report,
  }: {
    values: YamlValue;
    reading: ValueReader;
    paths: Config["paths"];
    chains: Chains;
    extensions: Extensions;
    report: Report;
  },
): void {
  checkHealth(file, report);
  checkBudgets(file, report);
  checkOverload(file, values, report);
  checkTimeouts(file, values, report);
  checkSizes(file, values, report);
  checkOutputLimits(file, report);
  checkKeyPaths(file, paths, (name) => extensions.protocols.get(name)?.storedResponses !== undefined, report);
  checkLimits(file, paths, chains, report);
  const { store: { ledger } = {}, limits: counting } = reading.values;
  checkLimitSharing(file, { ledger, limits: counting }, report);
}

/** Returns the settings that each depend on one section. */
function toSettings(file: GatewayFile, values: ConfigValues, protocols: readonly string[]) {
  const { listen, admin, tokens, store, limits, envelopes, webhook } = values;
  return {
    // These exist, or ValueReader would have reported why not.
    listen: listen as Config["listen"],
    ...(admin && { admin }),
    pages: file.pages === "on",
    ...(file.cors !== "off" && { cors: file.cors }),
    adminAccess: { ...tokens, ...build.adminAccess(file.admin) },
    workers: file.workers === "auto" ? availableParallelism() : file.workers,
    providers: build.configuredProviders(file, values, protocols),
    keep: file.health.keep,
    limits: build.limits(file),
    budgets: configuredBudgets(file),
    keys: build.configuredKeys(file, values),
    store: { ...file.store, ...(store as StoreLocation), limits: limits as string },
    ...(file.instances !== undefined && { instances: file.instances }),
    envelopes: envelopes === undefined ? {} : { key: envelopes },
    trace: file.trace === "on",
    ...(file.alerts && { alerts: { webhook: webhook as URL, repeat: file.alerts.repeat } }),
    ...pick(file, ...PLAIN_SECTIONS),
  };
}

type LoadedText = Pick<Config, "file" | "text">;

const sourceOf = ({ file, text }: LoadedText): YamlSource => new YamlSource(displayPath(file), text);

/** Returns a warning with its position in a loaded file. */
export const warningAt = (config: LoadedText, finding: Finding): Problem =>
  sourceOf(config).locate({ ...finding, severity: "warning" });

/** Returns an error with its position in a loaded file; `check` fails because of it. */
export const errorAt = (config: LoadedText, finding: Finding): Problem =>
  sourceOf(config).locate({ ...finding, severity: "error" });

/** Returns the position of a setting in a loaded file; undefined if it does not set it. */
export function settingPosition(
  config: LoadedText,
  path: readonly string[],
): Pick<Problem, "file" | "line"> | undefined {
  const source = sourceOf(config);
  return atPath(source.values, ...path) === undefined ? undefined : source.position({ path });
}

/** Returns the literal secrets in a loaded file, which references could replace: the path and line of each. */
export const literalSecrets = (config: LoadedText): { path: ConfigPath; line: number }[] =>
  sourceOf(config).literalSecrets();

/** Returns the error for an unreadable file, missing, empty or with invalid YAML; undefined if it can be read. */
export function readError(file: string): ConfigError | undefined {
  try {
    const source = new YamlSource(displayPath(file), readConfigText(file));
    const { values, problems } = source;
    if (isEmpty(source)) return emptyError(file);
    return values === undefined && problems.length > 0 ? new ConfigError(problems) : undefined;
  } catch (thrown) {
    if (thrown instanceof ConfigError) return thrown;
    throw thrown;
  }
}

const formatPosition = ({ file, line, column }: Pick<Problem, "file" | "line" | "column">): string =>
  `${file}:${line}:${column}`;

function readConfigText(file: string): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(file);
  } catch (thrown) {
    throw unreadableError(file, `cannot be read: ${fileProblem(thrown, "file")}`);
  }
  if (isUtf16(bytes)) throw unreadableError(file, "is UTF-16; save it as UTF-8");
  return bytes.toString("utf8");
}

function unreadableError(file: string, message: string): ConfigError {
  return new ConfigError([{ file: displayPath(file), line: 1, column: 1, message, frame: "", severity: "error" }]);
}

/** Reports whether there is nothing in a file but comments. */
const isEmpty = ({ values, problems }: YamlSource): boolean => problems.length === 0 && (values ?? null) === null;

const emptyError = (file: string): ConfigError => unreadableError(file, "is empty; it needs providers and models");

/** Reports whether a file begins with a byte order mark of UTF-16, or with an ASCII character in it. */
const isUtf16 = ([first, second]: Buffer): boolean =>
  (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff) || first === 0 || second === 0;

/** Removes `x-…` sections, which only hold anchors, and empty sections where they are optional. */
function withoutExtras(values: YamlValue): YamlValue {
  if (!isMap(values)) return values ?? {};
  return Object.fromEntries(
    Object.entries(values).filter(
      ([name, value]) => !name.startsWith("x-") && (value !== null || isRequiredSection(name)),
    ),
  );
}

const isRequiredSection = (section: string): boolean => section === "providers" || section === "models";

/** Returns the default chains and those of the file, which may replace them. */
function namedChains(values: YamlValue): Map<string, ListedPlugins> {
  const chains = new Map<string, ListedPlugins>();
  for (const [name, plugins] of Object.entries(DEFAULT_CHAINS)) chains.set(name, { plugins });
  for (const [name, plugins] of entries(atPath(values, "chains")))
    chains.set(name, { plugins: Array.isArray(plugins) ? plugins : [], path: ["chains", name] });
  return chains;
}

/** Returns the plugins of default paths, where the file leaves these to them. */
const defaultPlugins = (values: YamlValue): string[] =>
  Object.entries(SERVED_PATHS).flatMap(([path, plugin]) => {
    const entry = atPath(values, "paths", path);
    return entry === "off" || PATH_KINDS.some((kind) => atPath(entry, kind) !== undefined) ? [] : plugin;
  });

/** Returns the plugin lists that paths have in place of a chain's name, each under its path, which cannot be a chain's name. */
function inlineChains(values: YamlValue): [path: string, list: ListedPlugins][] {
  return entries(atPath(values, "paths")).flatMap(([path, entry]) => {
    const use = atPath(entry, "use");
    return Array.isArray(use) ? [[path, { plugins: use, path: ["paths", path, "use"] }]] : [];
  });
}
