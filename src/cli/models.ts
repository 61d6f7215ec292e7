import { parseArgs } from "node:util";
import type { Config, ConfiguredModel, ConfiguredTarget } from "../config/types.ts";
import { SERVICE_TIERS, type TieredRates } from "../core/price.ts";
import { OWN, PriceList, type PriceVersion } from "../core/price-list.ts";
import { Catalogue, type ModelFacts, type SourcedFact } from "../prices/catalogue.ts";
import { table, thousands } from "../text/table.ts";
import { COMMAND, misuseText, type Terminal } from "./verb.ts";

/** The line of the overall help. */
export const help = "models [--prices] [--json]   show models, what they take and cost, and who says so";

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} models [--prices] [--json]

Shows each model of gateway.yaml and its targets: tokens that fit in and come out, and who says so. What gateway.yaml does
not tell is read from public tables that came along with this program; nothing is fetched.

  --prices        what each target costs now, in USD per million tokens, and who says so
  --json          prints JSON, with all of it`;

/** What is told of a target. */
interface TargetLine {
  target: string;
  /** Why it takes no requests. */
  off?: string;
  facts: ModelFacts;
  prices: PriceList | undefined;
  now: PriceVersion | undefined;
}

interface ModelLine {
  model: ConfiguredModel;
  targets: TargetLine[];
}

/** The verb `models`. Answers the exit code: 0 done, 2 not understood. */
export async function run(args: readonly string[], io: Terminal, config: Config): Promise<number> {
  let asked: { prices: boolean; json: boolean };
  try {
    const options = { prices: { type: "boolean", default: false }, json: { type: "boolean", default: false } } as const;
    asked = parseArgs({ args: [...args], options }).values;
  } catch (error) {
    io.err(misuseText((error as Error).message, USAGE));
    return 2;
  }
  const models = await linesOf(config);
  if (asked.json) io.out(JSON.stringify(models.map(modelJson), undefined, 2));
  else for (const line of asked.prices ? priceTable(models) : factTable(models)) io.out(line);
  return 0;
}

async function linesOf({ models, providers }: Config): Promise<ModelLine[]> {
  const catalogue = await Catalogue.for(providers);
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  const now = Date.now();
  const line = ({ provider: name, model, price }: ConfiguredTarget): TargetLine => {
    const provider = byName.get(name);
    const facts = provider ? catalogue.find(provider, model) : {};
    const prices = price ? new PriceList([{ price }], OWN) : facts.prices;
    const off = provider?.off === undefined ? {} : { off: provider.off };
    return { target: `${name}:${model}`, ...off, facts, prices, now: prices?.at(now) };
  };
  return models.map((model) => ({ model, targets: model.targets.map(line) }));
}

/** What the file says, or else a table. */
const told = <T>(own: T | undefined, found: SourcedFact<T> | undefined): SourcedFact<T> | undefined =>
  own === undefined ? found : { value: own, source: OWN };

const sourceOf = ({ prices }: TargetLine): string =>
  prices ? `${prices.source}${prices.guessed ? " (guessed)" : ""}` : "unpriced";

function modelJson({ model, targets }: ModelLine) {
  return {
    id: model.id,
    name: model.name,
    targets: targets.map((line) => ({
      target: line.target,
      off: line.off,
      context: told(model.context, line.facts.context) ?? null,
      output: told(model.output, line.facts.output) ?? null,
      can: told(model.can, line.facts.can) ?? null,
      price: line.now
        ? {
            source: line.prices?.source,
            guessed: line.prices?.guessed,
            version: line.now.version,
            terms: line.now.price,
          }
        : null,
    })),
  };
}

function factTable(models: readonly ModelLine[]): string[] {
  const right = true;
  const columns = [
    ...["MODEL", "TARGET"].map((title) => ({ title })),
    { title: "CONTEXT", right },
    { title: "OUTPUT", right },
    ...["CAN", "FROM"].map((title) => ({ title })),
  ];
  const rows = models.flatMap(({ model, targets }) =>
    targets.map(({ target, facts }) => {
      const [context, output] = [told(model.context, facts.context), told(model.output, facts.output)];
      const can = told(model.can, facts.can);
      const sources = new Set([context, output, can].flatMap((each) => each?.source ?? []));
      return [
        model.id,
        target,
        count(context),
        count(output),
        can?.value.join(" ") || "-",
        [...sources].join(", ") || "-",
      ];
    }),
  );
  return table(columns, rows);
}

const count = (tokens: SourcedFact<number> | undefined): string => (tokens ? thousands(tokens.value) : "-");

function priceTable(models: readonly ModelLine[]): string[] {
  const columns = [
    ...["MODEL", "TARGET"].map((title) => ({ title })),
    ...["INPUT", "CACHED", "WRITE", "WRITE 1H", "OUTPUT"].map((title) => ({ title, right: true })),
    ...["ALSO", "FROM", "VERSION"].map((title) => ({ title })),
  ];
  const rows = models.flatMap(({ model, targets }) =>
    targets.map((line) => [model.id, line.target, ...termCells(line), sourceOf(line), line.now?.version ?? "-"]),
  );
  return table(columns, rows);
}

/** The usual rates, then what else there is; a rate that is like its parent's is a dash. */
function perImage(name: string, price: number | Readonly<Record<string, number>> | undefined): string[] {
  if (price === undefined) return [];
  if (typeof price === "number") return [`${name} ${price}`];
  return Object.entries(price).map(([asked, usd]) => `${name}${asked && ` ${asked}`} ${usd}`);
}

function termCells({ now, prices }: TargetLine): string[] {
  const { price = {} } = now ?? {};
  const cell = (usd: number | undefined) => (usd === undefined ? "-" : String(usd));
  const usual = [price.input, price.cached, price.cache_write, price.cache_write_1h, price.output].map(cell);
  const also = [
    ...(price.above ?? []).map(({ tokens, ...rates }) => `above ${thousands(tokens)}: ${brief(rates)}`),
    ...(["input_audio", "output_audio", "input_image", "output_image", "input_video"] as const).flatMap((name) =>
      price[name] === undefined ? [] : `${name} ${price[name]}`,
    ),
    ...SERVICE_TIERS.flatMap((tier) => (price[tier] ? `${tier}: ${brief(price[tier])}` : [])),
    ...(price.request === undefined ? [] : [`request ${price.request}`]),
    ...(price.web_search === undefined ? [] : [`web_search ${price.web_search}`]),
    ...perImage("image", price.image),
    ...perImage("image_edit", price.image_edit),
    ...(price.image_generation ? [`image_generation: ${Object.keys(price.image_generation).join(", ")}`] : []),
    ...((prices?.all.length ?? 0) > 1 ? ["others at other times"] : []),
  ];
  return [...usual, also.join("; ") || "-"];
}

const brief = ({ input, output }: TieredRates): string => `${input ?? "-"}/${output ?? "-"}`;
