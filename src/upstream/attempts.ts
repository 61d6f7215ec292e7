import type { Chain } from "../core/chain.ts";
import { type ErrorCode, GatewayError } from "../core/errors.ts";
import { Attempt, type Exchange, type Head } from "../core/exchange.ts";
import { faultOf } from "../core/fault.ts";
import { type Provider, type Target } from "../core/marketplace.ts";
import type { Operation, Protocol } from "../core/protocol.ts";
import { HeaderList } from "../wire/headers.ts";
import { authenticate, pathOf } from "./address.ts";
import { AllowList, adviseRetry, REQUEST_HEADERS, RESPONSE_HEADERS, requestIdIn } from "./allow-list.ts";
import { BufferedResponse } from "./buffered-response.ts";
import type { ClientSide, UpstreamProxy } from "./proxy.ts";
import type { OutgoingRequest } from "./request.ts";
import type { UpstreamResponse } from "./response.ts";

/** An upstream's answer whose head has been read. */
export interface UpstreamAnswer {
  head: Head;
  read: UpstreamResponse["read"];
  resume(): void;
  destroy(): void;
}

/** Errors of an attempt in which no provider has done anything for the request. */
const NEXT: ReadonlySet<string> = new Set<ErrorCode>(["upstream_unreachable", "not_translatable"]);

/** Tries an exchange's targets, best first, until one answers. */
export class Upstreams {
  private readonly up = new Map<Provider, Map<Protocol, AllowList>>();
  private readonly down = new Map<Protocol, AllowList>();

  constructor(private readonly proxy: UpstreamProxy) {}

  /**
   * The first answer that is not a reason to try the next target; the last target's answer whatever it is. A target is
   * passed over when it cannot be reached or its protocol cannot say what is asked, or when it says 429 or 5xx, as long as
   * no byte has gone to the client.
   * @throws GatewayError of the last attempt.
   */
  async reach(exchange: Exchange, chain: Chain, client: ClientSide): Promise<UpstreamAnswer> {
    const { targets } = exchange;
    if (targets.length === 0) throw new GatewayError("no_target");
    for (let i = 0; ; i++) {
      const last = i === targets.length - 1 || exchange.form?.rest !== undefined;
      const attempt = this.begin(exchange, targets[i] as Target);
      exchange.attempts.push(attempt);
      try {
        const written = chain.send(exchange, attempt);
        if (written) await written;
        authenticate(attempt);
        attempt.sent = true;
        const upstream = await this.proxy.send(outgoing(exchange, attempt), client);
        attempt.status = upstream.status;
        if (!last && (upstream.status === 429 || upstream.status >= 500)) upstream.destroy();
        else return this.answered(upstream, exchange, attempt);
      } catch (thrown) {
        attempt.error = GatewayError.from(thrown);
        if (attempt.error.code === "upstream_unreachable") attempt.sent = false;
        if (last || !NEXT.has(attempt.error.code)) throw unserved(exchange) ?? attempt.error;
      }
    }
  }

  close(): Promise<void> {
    return this.proxy.close();
  }

  /** An attempt before any plugin has seen it: the same protocol, the client's words, headers that may go on. */
  begin(exchange: Exchange, target: Target): Attempt {
    const { protocol, operation } = exchange;
    const headers = exchange.headers.filter(this.upward(protocol, target.provider).passes);
    if (protocol.defaults)
      for (const [name, value] of protocol.defaults) if (!headers.has(name)) headers.append(name, value);
    return new Attempt({
      target,
      protocol,
      method: operation.method,
      headers,
      body: exchange.body,
      startedAt: exchange.elapsed,
    });
  }

  /** Keeps the headers of a response that come back to clients of a protocol. */
  responseHeaders(protocol: Protocol): (received: HeaderList) => HeaderList {
    const { passes } = this.downward(protocol);
    return (received) => received.filter(passes);
  }

  private upward(protocol: Protocol, provider: Provider): AllowList {
    const lists = this.up.get(provider) ?? new Map<Protocol, AllowList>();
    let list = lists.get(protocol);
    if (!list) {
      list = new AllowList([...REQUEST_HEADERS, ...protocol.headers, ...provider.forward]);
      this.up.set(provider, lists.set(protocol, list));
    }
    return list;
  }

  private downward(protocol: Protocol): AllowList {
    let list = this.down.get(protocol);
    if (!list) {
      list = new AllowList([...RESPONSE_HEADERS, ...(protocol.answerHeaders ?? [])]);
      this.down.set(protocol, list);
    }
    return list;
  }

  private answered(upstream: UpstreamResponse, exchange: Exchange, attempt: Attempt): UpstreamAnswer {
    const { status } = upstream;
    const received = new HeaderList(upstream.headers);
    const requestId = requestIdIn(received);
    if (requestId !== undefined) attempt.requestId = requestId;
    const headers = received.filter(this.downward(attempt.protocol).passes);
    adviseRetry(status, headers);
    const framing = framingOf(status, headers.get("content-type"), attempt.operation ?? exchange.operation);
    // The length is of the provider's framing, or of a body that these two do not have (RFC 9110 §8.6).
    if (framing || status === 204 || status === 304) headers.delete("content-length");
    return new BufferedResponse(upstream, { status, headers, framing });
  }
}

/** A refusal of the last target tells nothing of the first one, whose failure is why it was asked. */
function unserved({ attempts }: Exchange): GatewayError | undefined {
  const last = attempts.at(-1)?.error;
  const { status } = attempts.findLast((attempt) => attempt.status !== undefined) ?? {};
  if (last?.code !== "not_translatable" || status === undefined) return undefined;
  const { kind } = faultOf(status, "");
  const message = `The provider answered ${status}, and another one cannot take the request: ${last.message}`;
  return new GatewayError("upstream_failed", { status, kind, message });
}

function outgoing(exchange: Exchange, attempt: Attempt): OutgoingRequest {
  const { provider } = attempt.target;
  const { body } = attempt;
  const { form } = exchange;
  const rest = form?.rest;
  return {
    origin: provider.url,
    method: attempt.method,
    path: pathOf(exchange, attempt),
    headers: attempt.headers.lines,
    body: rest ? followed(body.pieces, rest) : body.pieces,
    length: rest && form.restLength !== undefined ? body.length + form.restLength : undefined,
    credentialId: provider.name,
    timeouts: provider.timeouts,
  };
}

async function* followed(pieces: readonly Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* pieces;
  yield* rest;
}

/** How the body of an answer is framed. */
export function framingOf(status: number, type: string | undefined, operation: Operation): Head["framing"] {
  if (type?.startsWith("text/event-stream")) return "sse";
  const array = operation.framing === "array" && operation.streams === true;
  return array && status === 200 && type?.startsWith("application/json") ? "array" : undefined;
}
