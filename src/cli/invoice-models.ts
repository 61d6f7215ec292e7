import { WEB_SEARCH_NAME } from "./billed-parts.ts";

/** Words that invoices add to a model's name. */
const BILLING_WORDS = new Set(
  [
    "generate content input output inputs outputs token tokens count text image images audio video document short long context",
    "cached cache caching read write hit 5m 1h batch flex priority standard default ga predictions prediction thinking reasoning",
    "for of and the api usage per request requests training",
  ].flatMap((words) => words.split(" ")),
);

/** Joins a name's words with hyphens, so that `Fable 3.5 Large` and `fable_3.5-large` are equal. */
const hyphenate = (name: string): string =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");

/** Removes the date of a model's version, as only one of invoice and request may contain it. */
export const withoutDate = (name: string): string =>
  hyphenate(name).replace(/-(?:\d{4}-\d\d-\d\d|\d{8}|\d{4}|latest)$/, "");

/**
 * Finds the ledger's model for a name on a vendor's invoice: by the name without its version's date, or by the words of a line
 * if all other words are billing terms.
 * @param models the providers' names of models
 * @param modelNames the operator's mapping from names on the invoice to those in the ledger
 */
export class InvoiceModels {
  private readonly known: ReadonlySet<string>;
  private readonly modelNames: ReadonlyMap<string, string>;

  constructor(models: Iterable<string>, modelNames: ReadonlyMap<string, string> = new Map()) {
    this.known = new Set([...models].map(withoutDate));
    this.modelNames = new Map([...modelNames].map(([name, model]) => [hyphenate(name), withoutDate(model)]));
  }

  /** Reports whether the ledger has the model. */
  has(name: string): boolean {
    return this.known.has(this.find(name) ?? "");
  }

  /** Returns the model's name without date; undefined if none matches. */
  find(name: string): string | undefined {
    const mapped = this.modelNames.get(hyphenate(name));
    if (mapped !== undefined) return mapped;
    const plain = withoutDate(name);
    if (this.known.has(plain)) return plain;
    const words = hyphenate(name).split("-");
    const among = (form: (model: string) => string) =>
      [...this.known]
        .filter((model) => isModelLine(form(model).split("-"), words))
        .sort((a, b) => b.length - a.length)[0];
    const model = among((model) => model) ?? among((model) => model.replace(/-preview$/, ""));
    if (model !== undefined) return model;
    // Searches of any model, with any further words of the invoice.
    const searches = withoutDate(WEB_SEARCH_NAME);
    return this.known.has(searches) && hyphenate(name).includes(searches) ? searches : undefined;
  }
}

/** Reports whether a line consists of a model's words, billing terms and a version's date. */
function isModelLine(model: readonly string[], words: readonly string[]): boolean {
  for (let at = 0; at + model.length <= words.length; at++) {
    if (!model.every((word, n) => words[at + n] === word)) continue;
    const behind = words
      .slice(at + model.length)
      .join("-")
      .replace(/^(?:\d{4}-\d\d-\d\d|\d{8})(?:-|$)/, "");
    const others = [...words.slice(0, at), ...behind.split("-")];
    if (others.every((word) => word === "" || BILLING_WORDS.has(word))) return true;
  }
  return false;
}
