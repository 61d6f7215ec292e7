import { Calendar } from "../core/calendar.ts";
import type { PriceVersion } from "../core/price-list.ts";
import type { Ledger, LedgerSpan } from "../store/ledger.ts";
import type { PriceVersions } from "../store/price-versions.ts";
import { countNoun } from "../text/table.ts";
import { billedParts } from "./billed-parts.ts";
import { FIGURES, type Figures, type Invoice, type InvoiceLine } from "./invoice.ts";
import { InvoiceModels, withoutDate } from "./invoice-models.ts";

/** The ledger's figures of a provider's model on a day. */
export interface LedgerDay {
  readonly day: string;
  readonly provider: string;
  readonly model: string;
  readonly figures: Required<Figures>;
  /** Exchanges whose usage is incomplete, or that have no price. */
  readonly unsettled: number;
}

/** A model's day in the invoice and in the ledger. */
export interface ComparedDay {
  readonly day: string;
  /** Without the date of a version. */
  readonly model: string;
  /** The invoice's names for it; empty: the invoice does not contain it. */
  readonly names: readonly string[];
  readonly invoice: Figures;
  readonly ledger: Required<Figures>;
  readonly unsettled: number;
  readonly differ: readonly (keyof Figures)[];
}

/** Invoice lines of a name that is not in the ledger. */
interface Unmatched {
  readonly name: string;
  readonly lines: number;
  readonly figures: Figures;
}

export interface Comparison {
  readonly providers: readonly string[];
  readonly days: readonly ComparedDay[];
  readonly unmatched: readonly Unmatched[];
  /** Of all days and models, including unmatched ones. */
  readonly totals: { readonly invoice: Figures; readonly ledger: Figures };
}

/** Maximum number of days queried. */
const MAX_QUERIED_DAYS = 800;

/** Returns the days from an invoice's first to its last. @throws Error if there are none, or too many */
export function invoiceDays({ lines, unread }: Invoice, zone: string): string[] {
  const sorted = lines.map(({ day }) => day).sort();
  const [first, last] = [sorted[0], sorted.at(-1)];
  if (first === undefined || last === undefined) {
    const [why] = unread;
    const more = unread.length > 1 ? `, nor could ${countNoun(unread.length - 1, "other")}` : "";
    const unreadable = why ? ` Line ${why.line} could not be read${more}: ${why.reason}.` : "";
    throw new Error(`The file has no line that can be compared.${unreadable}`);
  }
  const days: string[] = [];
  for (let day = Temporal.PlainDate.from(first); day.toString() <= last; day = day.add({ days: 1 })) {
    days.push(day.toString());
    if (days.length > MAX_QUERIED_DAYS)
      throw new Error(`The file covers more than ${MAX_QUERIED_DAYS} days (${zone}): use a part of it.`);
  }
  return days;
}

/** Returns the usage of providers on these days. */
export async function ledgerDays(ledger: Ledger, days: readonly string[], zone: string): Promise<LedgerDay[]> {
  const found: LedgerDay[] = [];
  for (const day of days)
    for (const { group, tokensIn, cached, tokensOut, cost, unsettled } of await ledger.sums({
      by: ["target"],
      ...daySpan(day, zone),
    })) {
      const [target = ""] = group;
      const at = target.indexOf(":");
      // Responses of plugins, and failures, are on no invoice.
      if (at < 0) continue;
      const figures = { tokensIn, cached, tokensOut, tokens: tokensIn + tokensOut, cost };
      found.push({ day, provider: target.slice(0, at), model: target.slice(at + 1), figures, unsettled });
    }
  return found;
}

/**
 * Returns the amounts to add to `ledgerDays` because an invoice lists them under another name than the requested model. They
 * are unknown for rows that have been deleted.
 */
export async function ledgerAdjustments(
  { ledger, prices }: { ledger: Ledger; prices: PriceVersions },
  days: readonly string[],
  zone: string,
  names: (name: string) => boolean,
): Promise<LedgerDay[]> {
  const terms = new Map<string, PriceVersion | undefined>();
  const found: LedgerDay[] = [];
  for (const day of days)
    for await (const entry of ledger.entries({ ...daySpan(day, zone), billedApart: true })) {
      const at = entry.target.indexOf(":");
      if (at < 0) continue;
      for (const version of [entry.price, ...(entry.usage?.besides ?? []).map(({ price }) => price)])
        if (version !== undefined && !terms.has(version)) terms.set(version, await prices.find(version));
      const [provider, requestedModel] = [entry.target.slice(0, at), entry.target.slice(at + 1)];
      const parts = billedParts(requestedModel, entry, (version) => terms.get(version ?? ""), names);
      for (const part of parts) found.push({ day, provider, ...part });
    }
  return found;
}

/** Returns a function that reports whether an invoice has lines of a name that is no model in the ledger's sums. */
export function invoiceNameTest(
  { lines }: Invoice,
  modelNames: ReadonlyMap<string, string>,
): (name: string) => boolean {
  const charged = new Set(lines.map(({ name }) => name));
  const known = new Map<string, boolean>();
  return (name) =>
    known.getOrInsertComputed(name, () => {
      const models = new InvoiceModels([name], modelNames);
      return [...charged].some((each) => models.has(each));
    });
}

function daySpan(day: string, zone: string): Required<LedgerSpan> {
  const noon = Temporal.PlainDate.from(day).toZonedDateTime({ timeZone: zone, plainTime: "12:00" }).epochMilliseconds;
  const { start, end } = new Calendar(zone).span("day", noon);
  return { since: start, until: end };
}

/**
 * Returns the providers of an invoice: those whose models it names.
 * @throws Error if several match, or none
 */
export function invoiceProviders(
  { lines }: Invoice,
  ledger: readonly LedgerDay[],
  modelNames: ReadonlyMap<string, string>,
): string[] {
  const names = new Set(lines.map(({ name }) => name));
  const all = [...new Set(ledger.map(({ provider }) => provider))].sort();
  const meant = all.filter((provider) => {
    const models = new InvoiceModels(providerModels(ledger, [provider]), modelNames);
    return [...names].some((name) => models.has(name));
  });
  if (meant.length === 1) return meant;
  const hint = "Name its provider with --provider NAME, or several that are one account with --provider NAME,NAME";
  if (meant.length > 1) throw new Error(`Models of this file were served by ${meant.join(" and ")}. ${hint}.`);
  const there =
    all.length === 0 ? "it has no requests on these days" : `its providers on these days are ${all.join(", ")}`;
  throw new Error(`The ledger has none of the models of this file: ${there}. ${hint}, and assign models with --match.`);
}

const providerModels = (ledger: readonly LedgerDay[], providers: readonly string[]): string[] =>
  ledger.filter(({ provider }) => providers.includes(provider)).map(({ model }) => model);

/**
 * Compares an invoice with the ledger.
 * @param providers whose invoice it is
 * @param modelNames maps the invoice's names of models to the ledger's
 * @param tolerance the part of the larger figure by which two may differ
 */
export function compareInvoice(
  invoice: Invoice,
  ledger: readonly LedgerDay[],
  {
    providers,
    modelNames,
    tolerance,
  }: { providers: readonly string[]; modelNames: ReadonlyMap<string, string>; tolerance: number },
): Comparison {
  const own = ledger.filter(({ provider }) => providers.includes(provider));
  const models = new InvoiceModels(providerModels(own, providers), modelNames);
  const byDay = new Map<string, MutableDay>();
  const dayOf = (day: string, model: string): MutableDay =>
    byDay.getOrInsertComputed(`${day} ${model}`, () => {
      const figures = { invoice: {}, ledger: { ...ZERO_FIGURES } };
      return { day, model, names: new Set(), lines: 0, ...figures, unsettled: 0 };
    });
  const unmatched = new Map<string, { name: string; lines: number; figures: Figures }>();
  for (const line of invoice.lines) {
    const model = models.find(line.name);
    if (model === undefined) {
      const found = unmatched.get(line.name) ?? { name: line.name, lines: 0, figures: {} };
      unmatched.set(line.name, { ...found, lines: found.lines + 1, figures: addFigures(found.figures, line.figures) });
    } else addLine(dayOf(line.day, model), line);
  }
  for (const { day, model, figures, unsettled } of own) {
    const found = dayOf(day, withoutDate(model));
    found.ledger = { ...ZERO_FIGURES, ...addFigures(found.ledger, figures) };
    found.unsettled += unsettled;
  }
  const days = [...byDay.values()]
    .sort((one, other) => (one.day === other.day ? (one.model < other.model ? -1 : 1) : one.day < other.day ? -1 : 1))
    .map(({ names, lines, ...day }) => {
      const differ = FIGURES.filter(
        (name) => invoice.figureNames.has(name) && exceedsTolerance(name, day, tolerance, lines * invoice.rounding),
      );
      return { ...day, names: [...names], differ };
    });
  const totals = {
    invoice: invoice.lines.map(({ figures }) => figures).reduce(addFigures, {}),
    ledger: own.map(({ figures }) => figures).reduce(addFigures, {}),
  };
  return { providers, days, unmatched: [...unmatched.values()], totals };
}

interface MutableDay {
  readonly day: string;
  readonly model: string;
  readonly names: Set<string>;
  lines: number;
  invoice: Figures;
  ledger: Required<Figures>;
  unsettled: number;
}

const ZERO_FIGURES: Required<Figures> = { tokensIn: 0, cached: 0, tokensOut: 0, tokens: 0, cost: 0 };

function addLine(day: MutableDay, { name, figures }: InvoiceLine): void {
  day.names.add(name);
  day.lines++;
  day.invoice = addFigures(day.invoice, figures);
}

function addFigures(one: Figures, other: Figures): Figures {
  const all: Figures = { ...one };
  for (const name of FIGURES) if (other[name] !== undefined) all[name] = (all[name] ?? 0) + other[name];
  return all;
}

/** @param rounding maximum error of money by the rounding of lines */
function exceedsTolerance(
  name: keyof Figures,
  { invoice, ledger }: Pick<ComparedDay, "invoice" | "ledger">,
  tolerance: number,
  rounding: number,
): boolean {
  const [charged, counted] = [invoice[name] ?? 0, ledger[name]];
  const most = tolerance * Math.max(Math.abs(charged), Math.abs(counted)) + (name === "cost" ? rounding : 0);
  return Math.abs(charged - counted) > most;
}
