import {
  cost,
  type Exchange,
  type Head,
  Ledger,
  type LedgerEntry,
  type Plugin,
  Scanner,
  type Stage,
  type Usage,
} from "model-gateway";
import { injectable } from "tsyringe";

/** Reads what an answer says of its tokens, without touching it, and writes one ledger entry for each exchange. */
@injectable()
export default class UsageOf implements Plugin {
  static after = ["models"];

  constructor(private readonly ledger: Ledger) {}

  response(exchange: Exchange, head: Head): Stage | undefined {
    if (!exchange.operation.generates || head.status >= 300) return undefined;
    return head.framing ? streamed(exchange) : whole(exchange);
  }

  done(exchange: Exchange): void {
    this.ledger.append(entry(exchange));
  }
}

/** Parses only frames that hold usage. */
function streamed(exchange: Exchange): Stage {
  const { protocol } = exchange;
  return (frame) => {
    if (protocol.holdsUsage(frame)) exchange.usage = protocol.usage(frame.json(), exchange.usage) ?? exchange.usage;
  };
}

/** Scans the body as it passes and keeps only the members that hold usage. */
function whole(exchange: Exchange): Stage {
  const { protocol } = exchange;
  let scanner: Scanner | undefined = new Scanner({ capture: protocol.usageMembers, duplicates: "allow" });
  return (frame) => {
    try {
      if (frame.kind !== "end") scanner?.push(frame.bytes);
      else if (scanner) exchange.usage = usageIn(scanner, exchange);
    } catch {
      // Not JSON: no usage to be had, and nothing of ours to judge.
      scanner = undefined;
    }
  };
}

function usageIn(scanner: Scanner, { protocol }: Exchange): Usage | undefined {
  scanner.end();
  const members = protocol.usageMembers.map((name) => [name, scanner.captured(name)] as const);
  const found = members.flatMap(([name, bytes]) => (bytes ? [[name, JSON.parse(bytes.toString())] as const] : []));
  return found.length === 0 ? undefined : protocol.usage(Object.fromEntries(found));
}

function entry(exchange: Exchange): LedgerEntry {
  const { attempts, usage, model, firstByte, outcome } = exchange;
  const last = attempts.at(-1);
  return {
    id: exchange.id,
    time: exchange.time,
    key: exchange.caller?.id ?? "",
    model: model?.id ?? "",
    target: last ? `${last.target.provider.name}:${last.target.model}` : "",
    protocol: exchange.protocol.name,
    operation: exchange.operation.name,
    status: exchange.status,
    outcome,
    streaming: exchange.streaming,
    attempts: attempts.map(({ target, status, error, startedAt }) => ({
      target: `${target.provider.name}:${target.model}`,
      startedAt: Math.round(startedAt),
      ...(status === undefined ? {} : { status }),
      ...(error === undefined ? {} : { error: error.code }),
    })),
    duration: Math.round(exchange.elapsed),
    source: usage ? (outcome === "completed" ? "reported" : "partial") : "none",
    ...(firstByte === undefined ? {} : { firstByte: Math.round(firstByte) }),
    ...(usage ? { usage, cost: cost(usage, model?.price ?? {}) } : {}),
  };
}
