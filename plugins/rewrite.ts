import {
  type Attempt,
  type Exchange,
  GatewayError,
  type Head,
  type Plugin,
  replaceMember,
  type Stage,
  setMember,
} from "model-gateway";
import { injectable } from "tsyringe";

/**
 * Writes an attempt in the target's words: the vendor's model name in the body, our credential in the header, and a
 * request for usage where the vendor sends none unasked. Between equal protocols nothing else changes.
 */
@injectable()
export default class Rewrite implements Plugin {
  static after = ["models"];

  /** Exchanges whose stream carries usage only because we asked. */
  private readonly hidden = new WeakSet<Exchange>();

  route(exchange: Exchange): void {
    const { protocol, targets } = exchange;
    const speaking = targets.filter(({ provider }) => provider.speaks.includes(protocol.name));
    if (speaking.length === 0) throw notServed(exchange);
    exchange.targets = speaking;
  }

  send(exchange: Exchange, attempt: Attempt): void {
    const { body, form, operation, protocol } = exchange;
    const { provider, model } = attempt.target;
    if (form) attempt.edits.push({ ...form.span, bytes: Buffer.from(model) });
    const member = body.member("model");
    const name = JSON.stringify(model);
    // A name that is the vendor's own already leaves the body as the very buffers that came.
    if (member && body.slice(member.start, member.end).toString() !== name)
      attempt.edits.push(replaceMember(member, name));
    if (provider.credential !== undefined) {
      const [name, value] = protocol.credential(provider.credential);
      attempt.headers.set(provider.header ?? name, provider.header ? provider.credential : value);
    }
    const ask = protocol.includeUsage;
    if (!ask || operation.streams !== "asked" || body.member("stream")?.kind !== "true" || !body.scan) return;
    const asked = { stream: true, stream_options: body.value("stream_options") };
    if (!ask.missing(asked)) return;
    const added = ask.member(asked);
    attempt.edits.push(setMember(body.scan, added.name, added.json));
    this.hidden.add(exchange);
  }

  response(exchange: Exchange, head: Head): Stage | undefined {
    const type = head.headers.get("content-type") ?? "";
    // A page of some proxy in between is no answer of a provider: clients expect their protocol's error.
    if (head.status >= 500 && !type.includes("json") && !head.framing)
      throw new GatewayError("upstream_failed", {
        status: head.status,
        message: `The provider answered ${head.status} without a readable error.`,
      });
    const { includeUsage } = exchange.protocol;
    if (!head.framing || !includeUsage || !this.hidden.has(exchange)) return undefined;
    return (frame) => (includeUsage.extra(frame) ? [] : frame);
  }
}

function notServed(exchange: Exchange): GatewayError {
  const spoken = [...new Set(exchange.targets.flatMap(({ provider }) => provider.speaks))];
  return new GatewayError("not_served", {
    message: `The model "${exchange.model?.id}" is not served in the protocol ${exchange.protocol.name}.`,
    hint: `Its providers speak ${spoken.join(", ")}; use a path of one of these.`,
    param: "model",
  });
}
