import { type Attempt, type DoneExchange, Marketplace } from "model-gateway";
import type { DeliveredTokens } from "./delivered-tokens.ts";
import { type RequestFigures, responseProtocol, tryRead, type UsageReading } from "./usage-reading.ts";

/** Answers after which a mean follows the newer ones. */
const WINDOW = 50;
/** Means that are kept, of targets and of their keys: the one to which nothing was added for longest is forgotten. */
const MAX_MEANS = 4000;

/** A mean of the last values. */
interface Mean {
  count: number;
  value: number;
}

/** What is known of a request as it was sent. */
type AskedEffort = Pick<RequestFigures, "effort">;

/** Efforts at which a model reasons. */
const REASONING_EFFORTS: ReadonlySet<string> = new Set(["low", "medium", "high", "xhigh", "max"]);

/**
 * How much a target's model reasons without telling how much: some vendors' Chat streams tell nothing of their reasoning before their
 * usage, and items of Responses often only that it has ended. Where such a stream breaks off, the time before its text tells, as a
 * model writes its thoughts as fast as its text. Where that is not known, its reasoning counts as the mean of the answers whose usage
 * was reported: of its own key's answers from that target, so that nobody pays for the habits of others, or else of all keys', so that
 * nobody who always disconnects reasons for free. Only answers to requests of the same effort count: without reasoning, none is paid
 * for.
 */
export class UnseenReasoning {
  private readonly means = new Map<string, Mean>();

  /** Learns from a complete answer whose provider has reported its usage. */
  learn(exchange: DoneExchange, reading: UsageReading, asked: AskedEffort): void {
    const { attempt, usage, caller, operation } = exchange;
    if (!attempt || operation.task !== "generate" || usage?.out.total === undefined) return;
    const tokens = usage.out.reasoning ?? 0;
    // Nothing is kept of models that never reason, and little time lost on them.
    if (tokens === 0 && this.means.size === 0) return;
    const kind = kindOf(attempt, asked);
    if (tokens === 0 && !this.means.has(kind)) return;
    const parts = tokens === 0 ? 1 : unseenParts(exchange, reading);
    if (parts === 0) return;
    this.add(kind, tokens / parts);
    this.add(nameOf(kind, caller?.id), tokens / parts);
  }

  /**
   * Returns the tokens of a part of reasoning, for an answer whose text had begun: its reasoning had ended. Undefined: nothing is
   * known of them yet.
   */
  expected(exchange: DoneExchange, asked: AskedEffort, delivered?: DeliveredTokens): number | undefined {
    const { attempt } = exchange;
    if (!attempt) return undefined;
    const mean = this.means.size === 0 ? undefined : this.mean(exchange, attempt, asked);
    const reasons = mean === undefined ? REASONING_EFFORTS.has(asked.effort ?? "") : mean > 0;
    if (!reasons || !delivered || attempt.dispatchedAt === undefined) return mean;
    return delivered.tokensByTime(attempt.dispatchedAt) ?? mean;
  }

  private mean({ caller }: DoneExchange, attempt: Attempt, asked: AskedEffort): number | undefined {
    const kind = kindOf(attempt, asked);
    return (this.means.get(nameOf(kind, caller?.id)) ?? this.means.get(kind))?.value;
  }

  private add(name: string, tokens: number): void {
    const mean = this.means.get(name) ?? { count: 0, value: 0 };
    mean.count = Math.min(mean.count + 1, WINDOW);
    mean.value += (tokens - mean.value) / mean.count;
    this.means.delete(name);
    this.means.set(name, mean);
    const [oldest] = this.means.size > MAX_MEANS ? this.means.keys() : [];
    if (oldest !== undefined) this.means.delete(oldest);
  }
}

/** Returns the name of answers with a common mean: of one target, at one effort. */
const kindOf = ({ target }: Attempt, { effort = "" }: AskedEffort): string =>
  `${Marketplace.nameOf(target)}\n${effort}`;

const nameOf = (kind: string, key = ""): string => `${kind}\n${key}`;

/** Returns the parts of an answer's reasoning that tell nothing of how much they were; 0 also where it is not known, as in long whole answers. */
function unseenParts(exchange: DoneExchange, { delivered, parser }: UsageReading): number {
  if (delivered) return delivered.unseenParts;
  const json = parser?.json;
  if (json === undefined) return 0;
  const protocol = responseProtocol(exchange);
  const texts = tryRead(() => [...protocol.texts.response(json)]) ?? [];
  const hidden = tryRead(() => [...(protocol.hiddenReasoning?.()(json) ?? [])]) ?? [];
  const isUnseen = texts.length > 0 && hidden.every(([kind]) => kind === "assumed");
  return isUnseen && !texts.some(({ kind }) => kind === "reasoning") ? Math.max(1, hidden.length) : 0;
}
