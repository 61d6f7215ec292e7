import { additionalCost, type PriceVersion } from "../core/price-list.ts";
import type { Usage } from "../core/usage.ts";
import type { LedgerEntry } from "../store/ledger.ts";
import type { Figures } from "./invoice.ts";

/** The name of invoice lines for a vendor's web search tool, where it is charged separately. */
export const WEB_SEARCH_NAME = "web search";

/** An amount to add to a model's figures, or subtract from them, to match a vendor's invoice. */
interface BilledPart {
  readonly model: string;
  readonly figures: Required<Figures>;
  readonly unsettled: number;
}

/** Finds a price by its name in a row. */
type FindPrice = (version: string | undefined) => PriceVersion | undefined;

/**
 * Returns the parts of an exchange that an invoice lists under other names than the requested model: models that ran in
 * addition or took over, and, if the invoice names them, image models of tools and web searches. The money of all parts adds up
 * to 0; the tokens to those that the ledger's sums lack.
 * @param asked the model under which the ledger's sums have it
 * @param terms returns the prices used
 * @param names whether the invoice has lines of that name
 */
export function billedParts(
  asked: string,
  { usage, cost, price, source }: LedgerEntry,
  terms: FindPrice,
  names: (name: string) => boolean,
): BilledPart[] {
  if (!usage) return [];
  const served = usage.model ?? asked;
  const moneyOf = (part: Partial<Usage>, version = price): number => {
    const known = cost === undefined ? undefined : terms(version);
    return (known && additionalCost(part, usage, known)) ?? 0;
  };
  const parts = (usage.besides ?? []).map(({ model = served, price: own, ...part }) =>
    toBilledPart(model, part, moneyOf(part, own)),
  );
  const { drawn, serverTools } = usage;
  if (drawn?.model !== undefined && names(drawn.model))
    parts.push(toBilledPart(drawn.model, drawn, moneyOf({ drawn })));
  if (serverTools && names(WEB_SEARCH_NAME))
    parts.push(toBilledPart(WEB_SEARCH_NAME, NO_TOKENS, moneyOf({ serverTools })));
  const separateCost = parts.reduce((sum, { figures }) => sum + figures.cost, 0);
  if (served === asked) return parts.length === 0 ? [] : [...parts, toBilledPart(asked, NO_TOKENS, -separateCost)];
  const all = toBilledPart(served, usage, cost ?? 0);
  const unsettled = cost === undefined || (source !== "reported" && source !== "free") ? 1 : 0;
  return [
    ...parts,
    { ...all, figures: { ...all.figures, cost: all.figures.cost - separateCost }, unsettled },
    { model: asked, figures: negate(all.figures), unsettled: -unsettled },
  ];
}

const NO_TOKENS: Pick<Usage, "in" | "out"> = { in: {}, out: {} };

function toBilledPart(model: string, { in: input, out }: Pick<Usage, "in" | "out">, cost: number): BilledPart {
  const { total: tokensIn = 0, cached = 0 } = input;
  const { total: tokensOut = 0 } = out;
  return { model, figures: { tokensIn, cached, tokensOut, tokens: tokensIn + tokensOut, cost }, unsettled: 0 };
}

const negate = ({ tokensIn, cached, tokensOut, tokens, cost }: Required<Figures>): Required<Figures> => ({
  ...{ tokensIn: -tokensIn, cached: -cached, tokensOut: -tokensOut, tokens: -tokens, cost: -cost },
});
