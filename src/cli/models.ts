import type { Config, ConfiguredModel, ConfiguredTarget } from "../config/types.ts";
import { type Price, SERVICE_TIERS, type TieredRates } from "../core/price.ts";
import { OPERATOR_SOURCE, PriceList, type PriceVersion } from "../core/price-list.ts";
import { Catalogue, type ModelFacts, type SourcedFact } from "../prices/catalogue.ts";
import { formatTable, groupDigits, numberColumns } from "../text/table.ts";
import { parseVerbArguments, printJson, type Terminal } from "./verb.ts";

const OPTIONS = { prices: { type: "boolean" }, json: { type: "boolean" } } as const;

/** The facts of a target. */
interface TargetLine {
  target: string;
  /** Why it gets no requests. */
  off?: string;
  /** Context and output limits and abilities: from gateway.yaml, or else from a table. */
  facts: Omit<ModelFacts, "prices">;
  prices: PriceList | undefined;
  now: PriceVersion | undefined;
}

interface ModelLine {
  model: ConfiguredModel;
  targets: TargetLine[];
}

/** Runs the verb `models`. Returns the exit code 0. @throws UsageError */
export async function runModels(args: readonly string[], io: Terminal, config: Config): Promise<number> {
  const { prices, json } = parseVerbArguments(args, OPTIONS).values;
  const models = await modelLines(config);
  if (json) printJson(models.map(modelJson), io);
  else for (const line of prices ? priceTable(models) : factTable(models)) io.out(line);
  return 0;
}

async function modelLines({ models, providers }: Config): Promise<ModelLine[]> {
  const catalogue = await Catalogue.for(providers);
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  const now = Date.now();
  const line = (own: ConfiguredModel, { provider: name, model, price }: ConfiguredTarget): TargetLine => {
    const provider = byName.get(name);
    const found: ModelFacts = provider ? catalogue.find(provider, model) : {};
    const prices = price ? new PriceList([{ price }], OPERATOR_SOURCE) : found.prices;
    const off = provider?.off === undefined ? {} : { off: provider.off };
    const facts = {
      ...fileOrTable("context", own.context, found),
      ...fileOrTable("output", own.output, found),
      ...fileOrTable("can", own.can, found),
    };
    return { target: `${name}:${model}`, ...off, facts, prices, now: prices?.versionAt(now) };
  };
  return models.map((model) => ({ model, targets: model.targets.map((target) => line(model, target)) }));
}

/** Returns the file's value, or else a table's. */
function fileOrTable<N extends keyof TargetLine["facts"]>(
  name: N,
  own: NonNullable<ModelFacts[N]>["value"] | undefined,
  found: ModelFacts,
) {
  const fact = own === undefined ? found[name] : { value: own, source: OPERATOR_SOURCE };
  return fact && { [name]: fact };
}

function modelJson({ model, targets }: ModelLine) {
  return {
    id: model.id,
    name: model.name,
    targets: targets.map(({ target, off, facts, prices, now }) => ({
      ...{ target, off },
      ...{ context: null, output: null, can: null },
      ...facts,
      price: now ? { sources: now.sources, guessed: prices?.guessed, version: now.version, terms: now.price } : null,
    })),
  };
}

/** Marks figures with a letter for their source, and lists the letters. */
class Sources {
  private readonly letters = new Map<string, string>();

  /** Returns a figure with its source's letter; a dash gets a blank instead, so that figures align. */
  mark(figure: string | undefined, source = ""): string {
    if (figure === undefined) return "-  ";
    const next = String.fromCharCode("a".charCodeAt(0) + this.letters.size);
    return `${figure} ${this.letters.getOrInsert(source, next)}`;
  }

  get legend(): string[] {
    return [...this.letters].map(([source, letter]) => `${letter}  ${source}`);
  }
}

/** Formats a table whose rows have further lines below them, and the sources' letters. */
function sourcedTable(
  titles: readonly string[],
  models: readonly ModelLine[],
  sources: Sources,
  cellsOf: (line: TargetLine) => { cells: string[]; more: string[] },
): string[] {
  const rows = models.flatMap(({ model, targets }) => targets.map((line) => ({ model, line, ...cellsOf(line) })));
  const columns = ["MODEL", "TARGET", ...numberColumns(...titles.map((title) => `${title}  `))];
  const [head = "", ...lines] = formatTable(
    columns,
    rows.map(({ model, line, cells }) => [model.id, line.target, ...cells]),
  );
  return [head, ...lines.flatMap((line, at) => [line, ...wrapParts(rows[at]?.more ?? [])]), "", ...sources.legend];
}

/** Wraps the parts below a row to the width of a page. */
function wrapParts(parts: readonly string[]): string[] {
  const lines: string[] = [];
  for (const [at, part] of parts.entries()) {
    const text = at < parts.length - 1 ? `${part};` : part;
    const last = lines.at(-1);
    if (last !== undefined && last.length + text.length < MAX_LINE_WIDTH) lines[lines.length - 1] = `${last} ${text}`;
    else lines.push(`    ${text}`);
  }
  return lines;
}

const MAX_LINE_WIDTH = 100;

function factTable(models: readonly ModelLine[]): string[] {
  const sources = new Sources();
  const count = (fact: SourcedFact<number> | undefined) => sources.mark(fact && groupDigits(fact.value), fact?.source);
  return sourcedTable(["CONTEXT", "OUTPUT"], models, sources, ({ facts: { context, output, can } }) => ({
    cells: [count(context), count(output)],
    more: can ? [sources.mark(`can ${can.value.join(" ")}`, can.source)] : [],
  }));
}

function priceTable(models: readonly ModelLine[]): string[] {
  const sources = new Sources();
  return sourcedTable(["INPUT", "CACHED", "WRITE", "WRITE 1H", "OUTPUT"], models, sources, ({ now, prices }) => {
    const beside = (name: string, figure: string | undefined) => sources.mark(figure, now?.sources?.[name]);
    const cells = COLUMN_RATES.map((name) => beside(name, now?.price[name]?.toString()));
    if (!now) return { cells, more: ["unpriced"] };
    const more = otherPrices(now.price).map(([name, text]) => beside(name, text));
    if (prices?.guessed) more.unshift("guessed: the price of a model with a similar name");
    if ((prices?.all.length ?? 0) > 1) more.push("differs at other times");
    return { cells, more: [...more, `version ${now.version}`] };
  });
}

/** The rates with a column of their own; a rate equal to its parent's is shown as a dash. */
const COLUMN_RATES = ["input", "cached", "cache_write", "cache_write_1h", "output"] as const;

/** Returns a price's other parts, each with the name of its figure. */
function otherPrices(price: Price): [string, string][] {
  const { above = [], image_generation: drawing } = price;
  return [
    ...above.map(({ tokens, ...rates }): [string, string] => [
      "above",
      `above ${groupDigits(tokens)}: ${briefRates(rates)}`,
    ]),
    ...SINGLE_FIGURES.flatMap((name): [string, string][] =>
      price[name] === undefined ? [] : [[name, `${name} ${price[name]}`]],
    ),
    ...SERVICE_TIERS.flatMap((tier): [string, string][] =>
      price[tier] ? [[tier, `${tier}: ${briefRates(price[tier])}`]] : [],
    ),
    ...(["image", "image_edit"] as const).flatMap((name) =>
      perImage(name, price[name]).map((text): [string, string] => [name, text]),
    ),
    ...(drawing
      ? [["image_generation", `image_generation: ${Object.keys(drawing).join(", ")}`] as [string, string]]
      : []),
  ];
}

/** Single-number figures without a column. */
const SINGLE_FIGURES = [
  ...(["reasoning", "input_audio", "cached_audio", "output_audio"] as const),
  ...(["input_image", "cached_image", "output_image", "input_video"] as const),
  ...(["request", "web_search"] as const),
];

function perImage(name: string, price: number | Readonly<Record<string, number>> | undefined): string[] {
  if (price === undefined) return [];
  if (typeof price === "number") return [`${name} ${price}`];
  return Object.entries(price).map(([unit, usd]) => `${name}${unit && ` ${unit}`} ${usd}`);
}

const briefRates = ({ input, output }: TieredRates): string => `${input ?? "-"}/${output ?? "-"}`;
