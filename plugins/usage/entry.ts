import { type Attempt, type DoneExchange, Marketplace, type Redactor, type SendExchange } from "model-gateway";
import { Ledger, type LedgerEntry } from "model-gateway/store";
import { withDrawingModel } from "./drawing-model.ts";
import { ledgerAttempt } from "./ledger-attempt.ts";
import { addUsage, hasCounts } from "./price.ts";
import { type CutPolicy, type Settlement, tokensOfBytes, ZERO_USAGE } from "./settlement.ts";
import { requestedTier } from "./tier.ts";

/** Returns an exchange's first entry, which stands if nothing follows: as if there were no response. */
export function initialEntry(
  exchange: SendExchange,
  attempt: Attempt,
  cut: CutPolicy,
  prices: Marketplace,
): LedgerEntry {
  const { target, body } = attempt;
  const estimates = cut === "estimate" || cut === "drain";
  const tier = exchange.form ? undefined : requestedTier(attempt, exchange.time);
  const usage = estimates
    ? { in: { total: tokensOfBytes(body.length) }, out: {}, raw: undefined, ...(tier && { tier }) }
    : ZERO_USAGE;
  const { generates } = exchange.operation;
  const name = Marketplace.nameOf(target);
  const known = generates && body.length > 0 && !exchange.wantsBackground;
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: target.modelId ?? exchange.model?.id ?? "",
    target: name,
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: 0,
    outcome: "interrupted",
    streaming: false,
    attempts: [{ target: name, startedAt: Math.round(attempt.startedAt) }],
    duration: 0,
    source: generates ? "none" : "free",
  };
  addCaller(entry, exchange);
  if (!generates) entry.cost = 0;
  if (!known) return entry;
  entry.source = estimates ? "estimated" : cut === "absorb" ? "absorbed" : "observed";
  addUsage(entry, usage, target, prices);
  return entry;
}

/** Adds the key's current group and tags, and the client's address. */
function addCaller(entry: LedgerEntry, { caller, address }: Pick<DoneExchange, "caller" | "address">): void {
  if (caller?.group !== undefined) entry.group = caller.group;
  if (caller?.tags) entry.tags = caller.tags;
  if (address !== "") entry.address = address;
}

/** Client-error statuses with which a provider gives up on a request, after possibly working on it. */
const CHARGED_STATUSES: readonly number[] = [408, 499];

/** Reports whether an attempt certainly costs nothing: no provider received it, or one refused it. */
const isFree = ({ sent, status = 0 }: Attempt): boolean =>
  !sent || (status >= 400 && status < 500 && !CHARGED_STATUSES.includes(status));

/** Characters of an answer's id that are stored: vendors' ids are shorter. */
const MAX_ID = 256;

/** Returns an exchange's last entry. @param late the id of a response whose usage may be reported again */
export function finalEntry(
  exchange: DoneExchange,
  { usage: settled, source }: Settlement,
  late: string | undefined,
  { marketplace, redactor }: { marketplace: Marketplace; redactor: Redactor },
): LedgerEntry {
  const { attempts, model, firstByte, outcome, answerer } = exchange;
  const last = attempts.at(-1);
  const usage = settled && last ? withDrawingModel(settled, last) : settled;
  const free = (!exchange.operation.generates || attempts.every(isFree)) && !(usage && hasCounts(usage));
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: last?.target.modelId ?? model?.id ?? "",
    target: last ? Marketplace.nameOf(last.target) : answerer ? `answered by ${answerer.name}` : "",
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: exchange.status,
    outcome,
    streaming: exchange.streaming,
    attempts: attempts.map((attempt) => ledgerAttempt(attempt, exchange, redactor)),
    duration: Math.round(exchange.elapsed),
    source: free ? "free" : source,
  };
  addCaller(entry, exchange);
  if (firstByte !== undefined) entry.firstByte = Math.round(firstByte);
  if (exchange.received !== undefined) entry.bytes = { up: exchange.received, down: exchange.written };
  if (usage && late !== undefined) entry.once = `${last?.target.provider.name} ${late.slice(0, MAX_ID)}`;
  if (free || source === "absorbed") {
    entry.cost = 0;
    if (usage) entry.usage = usage;
  } else if (usage) addUsage(entry, usage, last?.target, marketplace);
  return entry;
}

type Writable<Type> = { -readonly [Name in keyof Type]: Type[Name] };

/** Returns what limits count of an entry: the same as budgets read from its row after a restart. */
export function chargeOf(entry: LedgerEntry): NonNullable<DoneExchange["charge"]> {
  const { usage, once, source, assumedCost = 0, cost: priced } = entry;
  const charge: Writable<NonNullable<DoneExchange["charge"]>> = {
    tokens: Ledger.tokensOf(entry),
    cost: priced ?? assumedCost,
    estimated: source === "estimated" || source === "partial",
  };
  if (usage) charge.usage = usage;
  if (priced !== undefined) charge.priced = priced;
  if (once !== undefined) charge.once = once;
  return charge;
}
