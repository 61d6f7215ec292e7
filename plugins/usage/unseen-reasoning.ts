import { type Attempt, type DoneExchange, Marketplace } from "model-gateway";
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

/**
 * How much a target's model reasons without any trace in the answer, on average of the answers whose usage was reported: some vendors'
 * Chat streams tell nothing of their reasoning before their usage. Where one breaks off, its reasoning counts as the mean of its own
 * key's answers from that target, so that nobody pays for the habits of others, or else of all keys', so that nobody who always
 * disconnects reasons for free. Only answers to requests of the same effort count: without reasoning, none is paid for.
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
    if (tokens === 0 ? !this.means.has(kind) : !isUnseen(exchange, reading)) return;
    this.add(kind, tokens);
    this.add(nameOf(kind, caller?.id), tokens);
  }

  /** Returns the mean tokens, for an answer whose text had begun: its reasoning had ended. */
  expected({ attempt, caller }: DoneExchange, asked: AskedEffort): number {
    if (!attempt || this.means.size === 0) return 0;
    const kind = kindOf(attempt, asked);
    const mean = this.means.get(nameOf(kind, caller?.id)) ?? this.means.get(kind);
    return Math.round(mean?.value ?? 0);
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

/** Reports whether an answer has output, and no trace of reasoning. Of long whole answers that is not known. */
function isUnseen(exchange: DoneExchange, { delivered, parser }: UsageReading): boolean {
  if (delivered) return delivered.shown > 0 && !delivered.hasReasoning;
  const json = parser?.json;
  if (json === undefined) return false;
  const protocol = responseProtocol(exchange);
  const texts = tryRead(() => [...protocol.texts.response(json)]) ?? [];
  const hidden = tryRead(() => [...(protocol.hiddenReasoning?.()(json) ?? [])]) ?? [];
  return texts.length > 0 && hidden.length === 0 && !texts.some(({ kind }) => kind === "reasoning");
}
