// npm run docs: writes what docs/ has of the sources: PAGES, at the end of this file.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { DEFAULT_CHAINS } from "../src/config/schema.ts";
import { REFUSALS } from "../src/core/errors.ts";
import { PHASES, type Phase, type PluginClass } from "../src/core/plugin.ts";
import { STEPS } from "../src/core/steps.ts";
import { LABELS, METRICS, type MetricDefinition } from "../src/metrics/definitions.ts";
import { type Declaration, Declarations } from "./declarations.ts";

const ROOT = new URL("..", import.meta.url);
const text = (file: string): string => readFileSync(new URL(file, ROOT), "utf8");

/** What is read of a JSON Schema. */
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
}

const cell = (words: string): string => words.replaceAll("|", "\\|").replaceAll("\n", " ");

/** The objects that a schema may be. */
function objectsOf(schema: Schema): Schema[] {
  const all = [schema, ...(schema.anyOf ?? [])];
  return all.filter(({ properties, additionalProperties }) => properties || typeof additionalProperties === "object");
}

/** One row for each setting below a schema. */
function rows(schema: Schema, path: string): string[] {
  const own: string[] = [];
  for (const object of objectsOf(schema)) {
    for (const [name, member] of Object.entries(object.properties ?? {})) own.push(...rowsOf(member, `${path}${name}`));
    if (typeof object.additionalProperties === "object")
      own.push(...rowsOf(object.additionalProperties, `${path}NAME`));
  }
  const lists = [schema, ...(schema.anyOf ?? [])].flatMap(({ items }) => items ?? []);
  for (const items of lists) own.push(...rows(items, path.replace(/\.$/, "[].")));
  return own;
}

function rowsOf(member: Schema, path: string): string[] {
  const { description, enum: words } = member;
  const usual =
    member.default === undefined || typeof member.default === "object" ? "" : `\`${String(member.default)}\``;
  const says = [description ?? "", words ? `One of ${words.map((word) => `\`${String(word)}\``).join(", ")}.` : ""];
  const about = cell(says.filter(Boolean).join(" "));
  return [`| \`${path}\` | ${usual} | ${about} |`, ...rows(member, `${path}.`)];
}

/** docs/configuration.md */
export function configuration(): string {
  const schema = JSON.parse(text("gateway.schema.json")) as Schema;
  const sections = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const table = [...new Set(rows(member, `${name}.`))];
    const usual =
      member.default === undefined || typeof member.default === "object"
        ? ""
        : ` Default: \`${String(member.default)}\`.`;
    const about = `${member.description ?? ""}${usual}`.trim();
    const head = table.length > 0 ? ["| setting | default | what it does |", "|---|---|---|", ...table] : [];
    return [`## ${name}`, ...(about ? ["", about] : []), ...(head.length > 0 ? ["", ...head] : [])].join("\n");
  });
  return `# Configuration

Every setting of gateway.yaml, made from its schema by \`npm run docs\`. Only \`providers\` and \`models\` are required. NAME is a name of
yours; members that begin with \`x-\` are left to you. Any text may hold \`$NAME\`, \`\${NAME:-default}\` or \`$file:/path\`.

${sections.join("\n\n")}
`;
}

/** docs/errors.md */
export function errors(): string {
  const table = Object.entries(REFUSALS).map(([code, refusal]) => {
    const { status, message, retry } = refusal;
    const hint = "hint" in refusal ? (refusal.hint as string) : "";
    return `| \`${code}\` | ${status} | ${cell([message, hint].filter(Boolean).join(" "))} | ${retry ? "yes" : "no"} |`;
  });
  return `# Errors

What the gateway itself refuses, made from its sources by \`npm run docs\`. A client gets each in the envelope of its own protocol, with
the code where that has a place for one, and often with a message that says more than this one. OpenAI's protocols have their vendor's
codes in its place, for which clients look: \`invalid_api_key\` for every 401, \`insufficient_quota\` for a spent budget and
\`rate_limit_exceeded\` for any other limit; the log and the ledger have the gateway's own. Where a retry cannot help, or the gateway
has already retried, the answer has \`x-should-retry: false\`, which the SDKs of OpenAI and Anthropic obey. What a provider answers passes as it is, in its own words; a plugin
may have codes of its own.

| code | status | message | asking again helps |
|---|---|---|---|
${table.join("\n")}
`;
}

/** What a phase's comment in the plugin's contract says. */
function phaseWords(phase: string): string {
  const comment = new RegExp(`/\\*\\*((?:(?!\\*/)[^])*)\\*/\\n(?:  //.*\\n)?  ${phase}\\?:`);
  const [, words] = comment.exec(text("src/core/plugin.ts")) ?? [];
  if (words === undefined) throw new Error(`src/core/plugin.ts says nothing of the phase ${phase}`);
  return words.replaceAll(/\s+(?:\* )?/g, " ").trim();
}

/** The chain of exchanges, each plugin with its class. */
const CHAIN = await Promise.all(
  (DEFAULT_CHAINS.llm ?? []).map(async (name) => {
    const { default: made } = (await import(`../plugins/${name}.ts`)) as { default: PluginClass };
    return { name, made };
  }),
);

/** Which of them fill a phase, in the order in which they run. */
function fillers(phase: Phase): string {
  const names = CHAIN.filter(({ made }) => phase in made.prototype).map(({ name }) => `\`${name}\``);
  return names.length > 0 ? ` (${(phase === "response" ? names.reverse() : names).join(", ")})` : "";
}

/** docs/life-of-a-request.md */
export function life(): string {
  const isPhase = (step: string): step is Phase => PHASES.some((phase) => phase === step);
  const sections: string[] = [];
  for (const [step, entry] of Object.entries(STEPS)) {
    const codes = Object.entries(REFUSALS).filter(([, refusal]) => refusal.step === step);
    const plugins = isPhase(step) ? [`**Plugins**${fillers(step)}. ${phaseWords(step)}`] : [];
    const rows = codes.map(([code, { status, message }]) => `| \`${code}\` | ${status} | ${cell(message)} |`);
    const table = rows.length > 0 ? [["| it ends with | status | |", "|---|---|---|", ...rows].join("\n")] : [];
    const ending = "ending" in entry ? [entry.ending] : [];
    sections.push([`## ${step}`, entry.does, ...plugins, ...ending, ...table].join("\n\n"));
  }
  return `# The life of a request

Its steps in their order, what plugins may do there, and with which of the gateway's [errors](errors.md) it can end: made from the sources
by \`npm run docs\`. [src/pipeline.ts](../src/pipeline.ts) is this page as code, [architecture.md](architecture.md) has it as a picture.

Whatever goes wrong becomes a \`GatewayError\` that names plugin and phase. It reaches the client in its own protocol, closes what was
open at the provider, and passes \`done\` like every other end.

${sections.join("\n\n")}
`;
}

/** docs/metrics.md */
export function metrics(): string {
  const all: [string, MetricDefinition][] = Object.entries(METRICS);
  const table = all.map(([name, { type, labels, help, buckets, across = "sum" }]) => {
    const ends = buckets ? ` Buckets: ${buckets.join(", ")}.` : "";
    const several = type === "gauge" ? ` Of several processes: ${across}.` : "";
    const words = labels.map((label) => `\`${label}\``).join(" ");
    return `| \`${name}\` | ${type} | ${words} | ${cell(`${help}${several}${ends}`)} |`;
  });
  const labels = Object.entries(LABELS).map(([label, words]) => `| \`${label}\` | ${cell(words)} |`);
  return `# Metrics

What \`GET /metrics\` of the admin side tells, made from the sources by \`npm run docs\`. Prometheus' text format; with \`workers\` those of
all of them together, and counters and histograms of those that have ended too: a worker reports its counts every five seconds and when it
ends, so that a sum never falls while the gateway runs, and a worker that is killed loses what it counted in the last five seconds. An exchange counts once, when it has ended; what was refused before it became one (an unknown path, a malformed
head, too much at once) is in \`gateway_refused_total\` and in the log, and what was only explained (\`gateway-explain: dry-run\`) nowhere. Tokens and money are those
of the ledger. Counters begin at 0 with each start of the gateway: those of refusals, limits, clients that left, stores, plugins and alerts for each value of
their label, so that \`increase()\` sees the first event; those of models, targets and keys when there is something to count. Besides these there are prom-client's own of the processes that serve, \`process_…\` and \`nodejs_…\`,
from the first scrape on.

| metric | type | labels | what it tells |
|---|---|---|---|
${table.join("\n")}

## Labels

None of them holds what a client can make up: no key's id, no unknown model. A metric has 5,000 series in a process at most; further ones
are one whose labels are \`other\`.

| label | values |
|---|---|
${labels.join("\n")}
`;
}

/** llms.txt: where a language model finds what. */
export function llms(): string {
  const pages = globSync("docs/*.md", { cwd: fileURLToPath(ROOT) }).sort();
  const lines = pages.map((page) => {
    const [title = "", ...rest] = text(page).split("\n");
    const first =
      rest
        .join("\n")
        .trim()
        .split(/\n\n|(?<=\.)\s/, 1)[0] ?? "";
    const about = /^[|`#]/.test(first) ? "" : `: ${first.replaceAll("\n", " ").replace(/:$/, ".")}`;
    return `- [${title.replace(/^# /, "")}](${page})${about}`;
  });
  return `# model-gateway

> One host and one key in front of every model vendor: a reverse proxy for the OpenAI, Anthropic and Gemini protocols with a chain of
> plugins. Start with the README; what a running gateway serves is at /openapi.json, its models at /v1/models.

- [README](README.md): two commands to the first answer, a tour of gateway.yaml, the life of a request, a plugin

## Documentation

${lines.join("\n")}

## Sources

- [Schema of gateway.yaml](gateway.schema.json)
- [Examples of plugins](examples/README.md)
- [How to work on it](CONTRIBUTING.md)
`;
}

const declared = ({ name, about, text }: Declaration): string =>
  [`### ${name}`, ...(about === "" ? [] : [about]), ["```ts", text.trimEnd(), "```"].join("\n")].join("\n\n");

/** A door's names, each as TypeScript declares it, and what these say besides. */
function doorPage(
  declarations: Declarations,
  shown: Set<string>,
  [file, specifier, about]: readonly [file: string, specifier: string, about: string],
): string {
  const door = declarations.door(file);
  const isNew = ({ text }: Declaration) => !shown.has(text) && shown.add(text);
  const exported = door.exported.filter(isNew);
  const named = door.named.filter(isNew);
  const sections = [`## ${specifier}`, about, ...exported.map(declared)];
  if (named.length > 0)
    sections.push(
      `## Named in ${specifier}`,
      "What the declarations above say, and plugins need not import.",
      ...named.map(declared),
    );
  return sections.join("\n\n");
}

const DOORS = [
  ["index", "model-gateway", "For policies: what a request passes on its way."],
  ["store", "model-gateway/store", "For plugins that keep something, or count."],
  ["testing", "model-gateway/testing", "For tests of plugins: one plugin, no sockets."],
] as const;
const PROTOCOL_DOOR = [
  "protocol",
  "model-gateway/protocol",
  "For wire formats: what only a vendor's documents tell.",
] as const;

/** docs/plugin-api.md and docs/protocol-api.md: what stands in the first is not said again in the second. */
const api = (): { plugin: string; protocol: string } =>
  Declarations.of((declarations) => {
    const shown = new Set<string>();
    const page = (door: (typeof DOORS)[number] | typeof PROTOCOL_DOOR) => doorPage(declarations, shown, door);
    return {
      plugin: `# Plugin API

What a plugin may import, as TypeScript declares it, made from the sources by \`npm run docs\`. [docs/plugins.md](plugins.md) tells how it is
used.

${DOORS.map(page).join("\n\n")}
`,
      protocol: `# Protocol API

What a protocol in \`plugins/protocols/\` may import, as TypeScript declares it, made from the sources by \`npm run docs\`. Names of the
[plugin API](plugin-api.md) are told there. [CONTRIBUTING.md](../CONTRIBUTING.md) tells how a protocol is added.

${page(PROTOCOL_DOOR)}
`,
    };
  });

let declaredApi: ReturnType<typeof api> | undefined;
/** Made once: it takes TypeScript some seconds. */
const apiOnce = (): ReturnType<typeof api> => {
  declaredApi ??= api();
  return declaredApi;
};

/** Files by what they must hold. */
export const PAGES: Readonly<Record<string, () => string>> = {
  "docs/configuration.md": configuration,
  "docs/errors.md": errors,
  "docs/life-of-a-request.md": life,
  "docs/metrics.md": metrics,
  "docs/plugin-api.md": () => apiOnce().plugin,
  "docs/protocol-api.md": () => apiOnce().protocol,
  "llms.txt": llms,
};

if (process.argv[1] === fileURLToPath(import.meta.url))
  for (const [file, made] of Object.entries(PAGES)) writeFileSync(new URL(file, ROOT), made());
