// npm run docs: generates the pages in PAGES (at the end of this file) from the sources.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { DEFAULT_CHAINS } from "../src/config/schema.ts";
import { REFUSALS } from "../src/core/errors.ts";
import { LIFE_STEPS } from "../src/core/life-steps.ts";
import { PHASES, type Phase, type PluginClass } from "../src/core/plugin.ts";
import { LABELS, METRICS, type MetricDefinition } from "../src/metrics/definitions.ts";
import { type Declaration, Declarations } from "./declarations.ts";

const ROOT = new URL("..", import.meta.url);
const readText = (file: string): string => readFileSync(new URL(file, ROOT), "utf8");

/** The members of a JSON Schema that are used here. */
interface Schema {
  type?: string | string[];
  description?: string;
  default?: unknown;
  enum?: unknown[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  anyOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
}

const cell = (words: string): string => words.replaceAll("|", "\\|").replaceAll("\n", " ");

/** Returns the object schemas among a schema and its alternatives. */
function objectsOf(schema: Schema): Schema[] {
  const all = [schema, ...(schema.anyOf ?? [])];
  return all.filter(({ properties, additionalProperties }) => properties || typeof additionalProperties === "object");
}

/** Builds the tables of settings. The members of a definition are listed where it is used first. */
class Settings {
  /** Where each definition was used first. */
  private readonly first = new Map<string, string>();

  constructor(private readonly definitions: Record<string, Schema> = {}) {}

  /** Returns one row for each setting below a schema. */
  rows(schema: Schema, path: string): string[] {
    const own: string[] = [];
    for (const object of objectsOf(schema)) {
      for (const [name, member] of Object.entries(object.properties ?? {}))
        own.push(...this.rowsOf(member, `${path}${name}`));
      if (typeof object.additionalProperties === "object")
        own.push(...this.rowsOf(object.additionalProperties, `${path}NAME`));
    }
    const lists = [schema, ...(schema.anyOf ?? [])].flatMap(({ items }) => items ?? []);
    for (const items of lists) own.push(...this.rows(items, path.replace(/\.$/, "[].")));
    return own;
  }

  private rowsOf(member: Schema, path: string): string[] {
    const { description, enum: words, $ref = "" } = member;
    const usual =
      member.default === undefined || typeof member.default === "object" ? "" : `\`${String(member.default)}\``;
    const definition = this.definitions[$ref.replace("#/$defs/", "")];
    const first = this.first.get($ref);
    if (definition && !first) this.first.set($ref, path);
    const says = [
      description ?? "",
      words ? `One of ${words.map((word) => `\`${String(word)}\``).join(", ")}.` : "",
      first ? `Its members are those of \`${first}\`.` : "",
    ];
    const about = cell(says.filter(Boolean).join(" "));
    const below = first ? [] : this.rows(definition ?? member, `${path}.`);
    return [`| \`${path}\` | ${usual} | ${about} |`, ...below];
  }
}

/** docs/configuration.md */
export function configurationPage(): string {
  const schema = JSON.parse(readText("gateway.schema.json")) as Schema;
  const settings = new Settings(schema.$defs);
  const sections = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const table = [...new Set(settings.rows(member, `${name}.`))];
    const usual =
      member.default === undefined || typeof member.default === "object"
        ? ""
        : ` Default: \`${String(member.default)}\`.`;
    const about = `${member.description ?? ""}${usual}`.trim();
    const head = table.length > 0 ? ["| setting | default | what it does |", "|---|---|---|", ...table] : [];
    return [`## ${name}`, ...(about ? ["", about] : []), ...(head.length > 0 ? ["", ...head] : [])].join("\n");
  });
  return `# Configuration

Every setting of gateway.yaml, generated from its schema by \`npm run docs\`. Only \`providers\` and \`models\` are required. NAME is a name
that you choose; top-level members that begin with \`x-\` are ignored. Any text may contain \`$NAME\`, \`\${NAME:-default}\` or \`$file:/path\`.

${sections.join("\n\n")}
`;
}

/** docs/errors.md */
export function errorsPage(): string {
  const table = Object.entries(REFUSALS).map(([code, refusal]) => {
    const { status, message, retry } = refusal;
    const hint = "hint" in refusal ? (refusal.hint as string) : "";
    return `| \`${code}\` | ${status} | ${cell([message, hint].filter(Boolean).join(" "))} | ${retry ? "yes" : "no"} |`;
  });
  return `# Errors

The gateway's own errors, generated from its sources by \`npm run docs\`. A client gets each in the error format of its own protocol, with
the code if the format has a place for one, and often with a more detailed message. OpenAI's protocols carry that vendor's codes, which
its clients look for: \`invalid_api_key\` for every 401, \`insufficient_quota\` for an exhausted budget and \`rate_limit_exceeded\` for any
other limit; log and ledger have the gateway's own code. If a retry cannot help, or the gateway has already retried, the answer has
\`x-should-retry: false\`, which the SDKs of OpenAI and Anthropic obey. Errors of a provider are forwarded unchanged; plugins may add codes
of their own.

| code | status | message | a retry can help |
|---|---|---|---|
${table.join("\n")}
`;
}

/** Returns the doc comment of a phase in src/core/plugin.ts. */
function phaseWords(phase: string): string {
  const comment = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\n(?:  //.*\\n)?  ${phase}\\?:`);
  const [, words] = comment.exec(readText("src/core/plugin.ts")) ?? [];
  if (words === undefined) throw new Error(`src/core/plugin.ts says nothing of the phase ${phase}`);
  return words.replaceAll(/\s+(?:\* )?/g, " ").trim();
}

/** The plugins of the default chain `llm`, each with its class. */
const CHAIN = await Promise.all(
  (DEFAULT_CHAINS.llm ?? []).map(async (name) => {
    const { default: made } = (await import(`../plugins/${name}.ts`)) as { default: PluginClass };
    return { name, made };
  }),
);

/** Lists the plugins of CHAIN that implement a phase, in the order in which they run. */
function pluginsOf(phase: Phase): string {
  const names = CHAIN.filter(({ made }) => phase in made.prototype).map(({ name }) => `\`${name}\``);
  return names.length > 0 ? ` (${(phase === "response" ? names.reverse() : names).join(", ")})` : "";
}

/** docs/life-of-a-request.md */
export function lifePage(): string {
  const isPhase = (step: string): step is Phase => PHASES.some((phase) => phase === step);
  const sections: string[] = [];
  for (const [step, entry] of Object.entries(LIFE_STEPS)) {
    const codes = Object.entries(REFUSALS).filter(([, refusal]) => refusal.step === step);
    const plugins = isPhase(step) ? [`**Plugins**${pluginsOf(step)}. ${phaseWords(step)}`] : [];
    const rows = codes.map(([code, { status, message }]) => `| \`${code}\` | ${status} | ${cell(message)} |`);
    const table = rows.length > 0 ? [["| errors | status | |", "|---|---|---|", ...rows].join("\n")] : [];
    const ending = "ending" in entry ? [entry.ending] : [];
    sections.push([`## ${step}`, entry.does, ...plugins, ...ending, ...table].join("\n\n"));
  }
  return `# The life of a request

The steps of a request in order, what plugins may do in each, and the [errors](errors.md) of the gateway with which it can end: generated from
the sources by \`npm run docs\`. [src/pipeline.ts](../src/pipeline.ts) is the code of this page, [architecture.md](architecture.md) the diagram.

Every failure becomes a \`GatewayError\` that names plugin and phase. The client gets it in its own protocol, the provider's connection is
closed if it is open, and \`done\` runs as at every other end.

${sections.join("\n\n")}
`;
}

/** docs/metrics.md */
export function metricsPage(): string {
  const all: [string, MetricDefinition][] = Object.entries(METRICS);
  const table = all.map(([name, { type, labels, help, buckets, aggregation = "sum" }]) => {
    const ends = buckets ? ` Buckets: ${buckets.join(", ")}.` : "";
    const several = type === "gauge" ? ` Across processes: ${aggregation}.` : "";
    const words = labels.map((label) => `\`${label}\``).join(" ");
    return `| \`${name}\` | ${type} | ${words} | ${cell(`${help}${several}${ends}`)} |`;
  });
  const labels = Object.entries(LABELS).map(([label, words]) => `| \`${label}\` | ${cell(words)} |`);
  return `# Metrics

The metrics of \`GET /metrics\` on the admin address, in Prometheus' text format, generated from the sources by \`npm run docs\`. With
\`workers\` the metrics of all of them are combined, including counters and histograms of those that have ended: a worker reports its
counts every five seconds and when it ends, so a sum never falls while the gateway runs, and a killed worker loses at most the last five
seconds.

- An exchange counts once, when it has ended. A request that is refused before it becomes an exchange (an unknown path, a malformed head,
  overload) counts in \`gateway_refused_total\` and, of a flood the first thousand a minute, is in the log. A request that is only explained
  (\`gateway-explain: dry-run\`) does not count.
- Exchanges of a chain without \`usage\`, such as \`GET /v1/models\`, count in \`gateway_requests_total\`, and have no row in the ledger.
- Tokens and money are those of the ledger. An answer that can be fetched again (a batch, a stored response) counts there once, and here once at
  each gateway that returns it; each of its log lines has its tokens.
- Counters start at 0 with each process. Those of refusals, limits, clients that disconnected, stores, plugins and alerts start at once, for each
  value of their label, so that \`increase()\` sees the first event; those of models, targets and keys start when there is something to count.
- prom-client's own metrics of the serving processes, \`process_…\` and \`nodejs_…\`, are included from the first scrape.

| metric | type | labels | meaning |
|---|---|---|---|
${table.join("\n")}

## Labels

No label has a value that a client can invent: there is no key's id and no unknown model. A metric has at most 5,000 series in a process; all
further ones are combined into one whose labels are \`other\`.

| label | values |
|---|---|
${labels.join("\n")}
`;
}

/** llms.txt: a list of the pages for language models. */
export function llmsPage(): string {
  const pages = globSync("docs/*.md", { cwd: fileURLToPath(ROOT) }).sort();
  const { files } = JSON.parse(readText("package.json")) as { files: string[] };
  const lines = pages.map((page) => {
    const [title = "", ...rest] = readText(page).split("\n");
    const first =
      rest
        .join("\n")
        .trim()
        .split(/\n\n|(?<=\.)\s/, 1)[0] ?? "";
    const about = /^[|`#]/.test(first) ? "" : `: ${first.replaceAll("\n", " ").replace(/:$/, ".")}`;
    const place = files.includes(`!${page}`) ? " (in the repository only)" : "";
    return `- [${title.replace(/^# /, "")}](${page})${place}${about}`;
  });
  return `# model-gateway

> One host and one key in front of every model vendor: a reverse proxy for the OpenAI, Anthropic and Gemini protocols with a chain of
> plugins. Start with the README; what a running gateway serves is at /openapi.json, its models at /v1/models.

- [README](README.md): two commands to the first answer, a tour of gateway.yaml, the life of a request, a plugin

## Documentation

${lines.join("\n")}

## Sources

- [Schema of gateway.yaml](gateway.schema.json) (in the repository; \`model-gateway schema\` writes it)
- [Examples of plugins](examples/README.md)
- [How to work on it](CONTRIBUTING.md)
`;
}

const declared = ({ name, about, text }: Declaration): string =>
  [`### ${name}`, ...(about === "" ? [] : [about]), ["```ts", text.trimEnd(), "```"].join("\n")].join("\n\n");

/**
 * Returns the declarations of an entry point's exports, and of the types that they refer to.
 * @param shown names that are declared so far
 * @param omitted names that declarations refer to so far, and that are not declared
 */
function entryPointPage(
  declarations: Declarations,
  shown: Set<string>,
  omitted: Set<string>,
  [file, specifier, about]: readonly [file: string, specifier: string, about: string],
): string {
  const entry = declarations.entryPoint(file);
  const isNew = ({ name }: Declaration) => !shown.has(name) && shown.add(name);
  const exported = entry.exported.filter(isNew);
  const named = entry.named.filter(isNew);
  for (const { name } of entry.omitted) omitted.add(name);
  const sections = [`## ${specifier}`, about, ...exported.map(declared)];
  if (named.length > 0)
    sections.push(
      `## Named in ${specifier}`,
      "Types that the declarations above refer to; plugins need not import them.",
      ...named.map(declared),
    );
  return sections.join("\n\n");
}

/** Returns the end of a page: the names that its declarations refer to without a declaration. */
const omittedNames = (shown: ReadonlySet<string>, omitted: ReadonlySet<string>): string => {
  const names = [...omitted].filter((name) => !shown.has(name)).sort();
  return `## Not shown

Types of the gateway that the declarations above refer to, and that plugins need not know: ${names.map((name) => `\`${name}\``).join(", ")}.
`;
};

const ENTRY_POINTS = [
  ["index", "model-gateway", "For policies: everything about a request on its way through the chain."],
  ["store", "model-gateway/store", "For plugins that store values or count usage."],
  ["testing", "model-gateway/testing", "For tests of plugins: one plugin, no sockets."],
] as const;
const PROTOCOL_ENTRY_POINT = [
  "protocol",
  "model-gateway/protocol",
  "For wire formats, as the vendors document them.",
] as const;

/** docs/plugin-api.md and docs/protocol-api.md; the second does not repeat declarations of the first. */
const apiPages = (): { plugin: string; protocol: string } =>
  Declarations.run((declarations) => {
    const shown = new Set<string>();
    const omitted = new Set<string>();
    const page = (entry: (typeof ENTRY_POINTS)[number] | typeof PROTOCOL_ENTRY_POINT) =>
      entryPointPage(declarations, shown, omitted, entry);
    return {
      plugin: `# Plugin API

What a plugin may import, as TypeScript declarations, generated from the sources by \`npm run docs\`. [docs/plugins.md](plugins.md) explains how
to use it.

${ENTRY_POINTS.map(page).join("\n\n")}

${omittedNames(shown, omitted)}`,
      protocol: `# Protocol API

What a protocol in \`plugins/protocols/\` may import, as TypeScript declarations, generated from the sources by \`npm run docs\`. Names of the
[plugin API](plugin-api.md) are described there. [CONTRIBUTING.md](../CONTRIBUTING.md) explains how to add a protocol.

${page(PROTOCOL_ENTRY_POINT)}

${omittedNames(shown, omitted)}`,
    };
  });

let declaredApi: ReturnType<typeof apiPages> | undefined;
/** Computed once, because TypeScript needs some seconds. */
const cachedApiPages = (): ReturnType<typeof apiPages> => {
  declaredApi ??= apiPages();
  return declaredApi;
};

/** The generated files, with the functions that return their content. */
export const PAGES: Readonly<Record<string, () => string>> = {
  "docs/configuration.md": configurationPage,
  "docs/errors.md": errorsPage,
  "docs/life-of-a-request.md": lifePage,
  "docs/metrics.md": metricsPage,
  "docs/plugin-api.md": () => cachedApiPages().plugin,
  "docs/protocol-api.md": () => cachedApiPages().protocol,
  "llms.txt": llmsPage,
};

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [file, made] of Object.entries(PAGES)) writeFileSync(new URL(file, ROOT), made());
