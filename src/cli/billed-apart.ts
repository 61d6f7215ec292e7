import { costBeside, type PriceVersion } from "../core/price-list.ts";
import type { Usage } from "../core/usage.ts";
import type { LedgerEntry } from "../store/ledger.ts";
import type { Figures } from "./invoice.ts";

/** What bills call searches of the web by a vendor's tool, where these have lines of their own. */
export const SEARCHES = "web search";

/** What has to be added to a model's figures, or taken from them, to have them as a vendor's bill does. */
interface BilledPart {
  readonly model: string;
  readonly figures: Required<Figures>;
  readonly unsettled: number;
}

/** Finds terms by the name that a row tells. */
type Terms = (version: string | undefined) => PriceVersion | undefined;

/**
 * What of an exchange a bill has under other names than the model that was asked: models that ran besides or went on in its
 * place, and, where the bill names them, models that a tool drew with and searches. The money of all parts adds up to 0; the
 * tokens to those that the ledger's sums do not have.
 * @param asked the model that the ledger's sums have it with
 * @param terms what of it was reckoned with
 * @param names whether the bill has lines of that name
 */
export function billedApart(
  asked: string,
  { usage, cost, price, source }: LedgerEntry,
  terms: Terms,
  names: (name: string) => boolean,
): BilledPart[] {
  if (!usage) return [];
  const served = usage.model ?? asked;
  const moneyOf = (part: Partial<Usage>, version = price): number => {
    const known = cost === undefined ? undefined : terms(version);
    return (known && costBeside(part, usage, known)) ?? 0;
  };
  const parts = (usage.besides ?? []).map(({ model = served, price: own, ...part }) =>
    partOf(model, part, moneyOf(part, own)),
  );
  const { drawn, serverTools } = usage;
  if (drawn?.model !== undefined && names(drawn.model)) parts.push(partOf(drawn.model, drawn, moneyOf({ drawn })));
  if (serverTools && names(SEARCHES)) parts.push(partOf(SEARCHES, NOTHING, moneyOf({ serverTools })));
  const apart = parts.reduce((sum, { figures }) => sum + figures.cost, 0);
  if (served === asked) return parts.length === 0 ? [] : [...parts, partOf(asked, NOTHING, -apart)];
  const all = partOf(served, usage, cost ?? 0);
  const unsettled = cost === undefined || (source !== "reported" && source !== "free") ? 1 : 0;
  return [
    ...parts,
    { ...all, figures: { ...all.figures, cost: all.figures.cost - apart }, unsettled },
    { model: asked, figures: negative(all.figures), unsettled: -unsettled },
  ];
}

const NOTHING: Pick<Usage, "in" | "out"> = { in: {}, out: {} };

function partOf(model: string, { in: input, out }: Pick<Usage, "in" | "out">, cost: number): BilledPart {
  const { total: tokensIn = 0, cached = 0 } = input;
  const { total: tokensOut = 0 } = out;
  return { model, figures: { tokensIn, cached, tokensOut, tokens: tokensIn + tokensOut, cost }, unsettled: 0 };
}

const negative = ({ tokensIn, cached, tokensOut, tokens, cost }: Required<Figures>): Required<Figures> => ({
  ...{ tokensIn: -tokensIn, cached: -cached, tokensOut: -tokensOut, tokens: -tokens, cost: -cost },
});
