import { SEARCHES } from "./billed-apart.ts";

/** What bills say beside a model's name. */
const BILLING = new Set(
  [
    "generate content input output inputs outputs token tokens count text image images audio video document short long context",
    "cached cache caching read write hit 5m 1h batch flex priority standard default ga predictions prediction thinking reasoning",
    "for of and the api usage per request requests training",
  ].flatMap((words) => words.split(" ")),
);

/** A name's words with hyphens between them: `Fable 3.5 Large` and `fable_3.5-large` are the same. */
const hyphened = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");

/** A name without the date of its version, which bills have where requests do not, and the other way round. */
export const undated = (name: string): string => hyphened(name).replace(/-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}|latest)$/, "");

/**
 * Finds which of the ledger's models a vendor's bill means: by its name without its version's date, or by a line's words
 * where all others are what bills say.
 * @param models of providers, as they are called there
 * @param told by the operator: what a bill calls a model, and what the ledger does
 */
export class InvoiceModels {
  private readonly known: ReadonlySet<string>;
  private readonly told: ReadonlyMap<string, string>;

  constructor(models: Iterable<string>, told: ReadonlyMap<string, string> = new Map()) {
    this.known = new Set([...models].map(undated));
    this.told = new Map([...told].map(([name, model]) => [hyphened(name), undated(model)]));
  }

  /** Whether the ledger has the model that is meant. */
  knows(name: string): boolean {
    return this.known.has(this.find(name) ?? "");
  }

  /** The model's name without date; undefined where none is meant. */
  find(name: string): string | undefined {
    const told = this.told.get(hyphened(name));
    if (told !== undefined) return told;
    const plain = undated(name);
    if (this.known.has(plain)) return plain;
    const words = hyphened(name).split("-");
    const among = (form: (model: string) => string) =>
      [...this.known].filter((model) => isIn(form(model).split("-"), words)).sort((a, b) => b.length - a.length)[0];
    const model = among((model) => model) ?? among((model) => model.replace(/-preview$/, ""));
    if (model !== undefined) return model;
    // Whichever model made them, and however a bill goes on.
    const searches = undated(SEARCHES);
    return this.known.has(searches) && hyphened(name).includes(searches) ? searches : undefined;
  }
}

/** Whether a model's words stand in a line, and beside them only what bills say, or a version's date. */
function isIn(model: readonly string[], words: readonly string[]): boolean {
  for (let at = 0; at + model.length <= words.length; at++) {
    if (!model.every((word, n) => words[at + n] === word)) continue;
    const behind = words
      .slice(at + model.length)
      .join("-")
      .replace(/^(?:\d{4}-\d\d-\d\d|\d{8})(?:-|$)/, "");
    const others = [...words.slice(0, at), ...behind.split("-")];
    if (others.every((word) => word === "" || BILLING.has(word))) return true;
  }
  return false;
}
