import { stringify } from "yaml";
import { isMap } from "../config/tree.ts";
import { groupDigits } from "../text/table.ts";
import type { ModelOffer, VendorOffer } from "./offers.ts";

/** A gateway.yaml in parts: entries in order, with comments. */
export interface NewFile {
  /** Lines of the comment at the top, without `#`. */
  about: readonly string[];
  /** Sections besides these two, with their final content. */
  sections?: Readonly<Record<string, unknown>>;
  providers: readonly NewEntry[];
  models: readonly NewEntry[];
}

export interface NewEntry {
  name: string;
  entry: Readonly<Record<string, unknown>>;
  /** A comment after the entry. */
  comment?: string;
}

/** Formats a value as one line of YAML. */
function oneLine(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(oneLine).join(", ")}]`;
  if (isMap(value))
    return `{ ${Object.entries(value)
      .map(([name, each]) => `${oneLine(name)}: ${oneLine(each)}`)
      .join(", ")} }`;
  // Quoted as in a list, where a plain comma would end the value.
  return stringify([value], { collectionStyle: "flow", lineWidth: 0 }).trim().slice(1, -1).trim();
}

/** Returns the text of a gateway.yaml: short, one entry per line. */
export function formatGatewayFile({ about, sections = {}, providers, models }: NewFile): string {
  const entry = ({ name, entry: value, comment }: NewEntry) =>
    `  ${oneLine(name)}: ${oneLine(value)}${comment === undefined ? "" : `   # ${comment}`}`;
  const section = ([name, value]: [string, unknown]): string[] =>
    isMap(value)
      ? ["", `${name}:`, ...Object.entries(value).map(([key, each]) => `  ${oneLine(key)}: ${oneLine(each)}`)]
      : [`${name}: ${oneLine(value)}`];
  const lines = [
    ...about.map((line) => `# ${line}`),
    ...Object.entries(sections)
      .filter(([, value]) => typeof value !== "object")
      .flatMap(section),
    "",
    "providers:",
    ...providers.map(entry),
    "",
    "models:",
    ...models.map(entry),
    ...Object.entries(sections)
      .filter(([, value]) => typeof value === "object")
      .flatMap(section),
  ];
  return `${lines.join("\n")}\n`;
}

/** Builds a gateway.yaml from vendors' offers, with the built-in provider added. */
export function fileFromOffers(
  offers: readonly VendorOffer[],
  chosen: ReadonlySet<ModelOffer>,
  command: string,
): NewFile {
  const taken = new Set<string>();
  const models = offers.flatMap(({ vendor, models }): NewEntry[] =>
    models
      .filter((model) => chosen.has(model))
      .map((model) => {
        const name = taken.has(model.id) ? `${vendor.id}/${model.id}` : model.id;
        taken.add(name);
        const comment = priceAndContext(model);
        return {
          name,
          entry: { ...model.entry, targets: [`${vendor.id}:${model.id}`] },
          ...(comment !== "" && { comment }),
        };
      }),
  );
  return {
    about: [
      `Made by init. Check changes with: ${command} check`,
      "USD per million tokens in and out, and what fits in.",
    ],
    sections: { listen: "127.0.0.1:8080" },
    providers: [
      ...offers.map(({ vendor, variable, url, listing }): NewEntry => {
        const { url: _, ...rest } = vendor.provider;
        const credential = variable === undefined ? {} : { credential: `$${variable}` };
        const comment = listing.models
          ? {}
          : { comment: listing.problem ?? "its list of models could not be requested" };
        return { name: vendor.id, entry: { url, ...credential, ...rest }, ...comment };
      }),
      { name: "demo", entry: { url: "demo:" }, comment: "built in: answers on every path, costs nothing" },
    ],
    models: [...models, { name: "echo", entry: { targets: ["demo:echo"] } }],
  };
}

/** Formats a model's price and context; empty where both are unknown. */
export function priceAndContext({ price, context }: ModelOffer): string {
  const cost = price?.input === undefined ? "" : `$${price.input} / $${price.output ?? 0}`;
  return [cost, context === undefined ? "" : `${groupDigits(context)} tokens`].filter(Boolean).join(", ");
}
