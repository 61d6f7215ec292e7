import {
  type Attempt,
  cost,
  type DoneExchange,
  type Head,
  Ledger,
  type LedgerEntry,
  type Plugin,
  type Protocol,
  type ResponseExchange,
  Scanner,
  type Stage,
  type Usage,
} from "model-gateway";
import { injectable } from "tsyringe";

/** Bytes of an answer up to which parsing it costs less than scanning it. */
const SMALL = 4096;

/** Reads what an answer says of its tokens, without touching it, and writes one ledger entry for each exchange. */
@injectable()
export default class UsageOf implements Plugin {
  static after = ["models"];

  constructor(private readonly ledger: Ledger) {}

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    if (!exchange.operation.generates || head.status >= 300) return undefined;
    return head.framing ? streamed(exchange) : whole(exchange);
  }

  done(exchange: DoneExchange): void {
    this.ledger.append(entry(exchange));
  }
}

/** The protocol of the frames: that of the provider that answers. */
const spoken = ({ attempt, protocol }: ResponseExchange) => attempt?.protocol ?? protocol;

/** Parses only frames that hold usage. */
function streamed(exchange: ResponseExchange): Stage {
  const protocol = spoken(exchange);
  return (frame) => {
    if (protocol.holdsUsage(frame)) exchange.usage = protocol.usage(frame.json(), exchange.usage) ?? exchange.usage;
  };
}

/** Parses a small body, scans a larger one as it passes and keeps only the members that hold usage. */
function whole(exchange: ResponseExchange): Stage {
  const protocol = spoken(exchange);
  let first: Buffer | undefined;
  let scanner: Scanner | undefined;
  return ({ kind, bytes }) => {
    try {
      if (kind === "end") {
        exchange.usage = scanner ? usageIn(scanner, protocol) : first && protocol.usage(JSON.parse(first.toString()));
      } else if (!first && bytes.length < SMALL) {
        first = bytes;
      } else {
        scanner ??= begun(first, protocol.usageMembers);
        scanner.push(bytes);
        first ??= bytes;
      }
    } catch {
      // Not JSON: no usage to be had, and nothing of ours to judge.
    }
  };
}

function begun(first: Buffer | undefined, capture: readonly string[]): Scanner {
  const scanner = new Scanner({ capture, duplicates: "allow" });
  if (first) scanner.push(first);
  return scanner;
}

function usageIn(scanner: Scanner, protocol: Protocol): Usage | undefined {
  scanner.end();
  const members = protocol.usageMembers.map((name) => [name, scanner.captured(name)] as const);
  const found = members.flatMap(([name, bytes]) => (bytes ? [[name, JSON.parse(bytes.toString())] as const] : []));
  return found.length === 0 ? undefined : protocol.usage(Object.fromEntries(found));
}

function entry(exchange: DoneExchange): LedgerEntry {
  const { attempts, usage, model, firstByte, outcome, answerer } = exchange;
  const last = attempts.at(-1);
  const free = !attempts.some(({ sent }) => sent);
  const entry: LedgerEntry = {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: model?.id ?? "",
    target: last ? nameOf(last) : answerer ? `answered by ${answerer.name}` : "",
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: exchange.status,
    outcome,
    streaming: exchange.streaming,
    attempts: attempts.map(tried),
    duration: Math.round(exchange.elapsed),
    source: free ? "free" : usage ? (outcome === "completed" ? "reported" : "partial") : "none",
  };
  if (firstByte !== undefined) entry.firstByte = Math.round(firstByte);
  if (exchange.received !== undefined) entry.bytes = { up: exchange.received, down: exchange.written };
  if (usage) entry.usage = usage;
  if (free) entry.cost = 0;
  else if (usage) entry.cost = cost(usage, model?.price ?? {});
  return entry;
}

function tried(attempt: Attempt): LedgerEntry["attempts"][number] {
  const one: LedgerEntry["attempts"][number] = { target: nameOf(attempt), startedAt: Math.round(attempt.startedAt) };
  if (attempt.status !== undefined) one.status = attempt.status;
  if (attempt.error) one.error = attempt.error.code;
  return one;
}

const nameOf = ({ target }: Attempt): string => `${target.provider.name}:${target.model}`;
