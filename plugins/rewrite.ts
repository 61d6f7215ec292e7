import {
  type Attempt,
  type Body,
  betterOf,
  clientSide,
  type Edit,
  Envelopes,
  type Exchange,
  GatewayError,
  type Head,
  Marketplace,
  type Plugin,
  Protocols,
  replaceMember,
  type Stage,
  setMember,
  type Target,
  type TranslatedProtocol,
  translationOf,
} from "model-gateway";
import { injectable } from "tsyringe";
import { choose } from "./rewrite/choose.ts";
import { Passage } from "./rewrite/passage.ts";
import { refused } from "./rewrite/refused.ts";

/**
 * Writes an attempt in the target's words: the vendor's model name in the body, our credential in the header, and a
 * request for usage where the vendor sends none unasked. Between equal protocols nothing else changes; between others
 * request and answer are translated.
 */
@injectable()
export default class Rewrite implements Plugin {
  static after = ["models"];

  /** Exchanges whose stream carries usage only because we asked. */
  private readonly hidden = new WeakSet<Exchange>();
  /** Exchanges that are translated for one of their targets at least. */
  private readonly passages = new WeakMap<Exchange, Passage>();

  /** By a protocol's name: whether its clients are translated for some model, so that they may bring envelopes. */
  private readonly mixed = new Map<string, boolean>();

  constructor(
    private readonly protocols: Protocols,
    private readonly envelopes: Envelopes,
    private readonly marketplace: Marketplace,
  ) {}

  route(exchange: Exchange): void {
    const { protocol, targets } = exchange;
    const others = new Map<Target, TranslatedProtocol>();
    const speaking = targets.filter((target) => {
      const chosen = choose(exchange, target, this.protocols);
      if (chosen !== undefined && chosen !== "own") others.set(target, chosen);
      return chosen !== undefined;
    });
    if (clientSide(protocol)) this.prepare(exchange, others);
    if (speaking.length === 0 && !this.estimated(exchange)) throw notServed(exchange);
    exchange.targets = speaking;
  }

  private prepare(exchange: Exchange, others: ReadonlyMap<Target, TranslatedProtocol>): void {
    const { protocol, targets, body } = exchange;
    // Also where another protocol is better for the request: that one may not take it.
    const native = () => targets.some(({ provider }) => provider.speaks.includes(protocol.name));
    const foreign = this.mayCarry(exchange) && native() && this.envelopes.among(body.pieces);
    if (others.size > 0 || foreign) this.passages.set(exchange, new Passage(exchange, others, this.envelopes, foreign));
  }

  /** A conversation that was begun with a provider of another protocol brings that one's state along. */
  private mayCarry({ protocol, operation }: Exchange): boolean {
    const { name } = protocol;
    const better = betterOf(protocol);
    if (operation.task === undefined) return false;
    let mixed = this.mixed.get(name);
    if (mixed === undefined) {
      const targets = this.marketplace.models.flatMap((model) => model.targets);
      mixed = targets.some(
        ({ provider: { speaks }, via = name }) =>
          via !== name || !speaks.includes(name) || (better && speaks.includes(better.protocol)),
      );
      this.mixed.set(name, mixed);
    }
    return mixed;
  }

  send(exchange: Exchange, attempt: Attempt): void {
    const { provider, model } = attempt.target;
    const passage = this.passages.get(exchange);
    const to = passage && translated(passage, exchange, attempt);
    if (provider.credential !== undefined) {
      const [name, value] = attempt.protocol.credential(provider.credential);
      attempt.headers.set(provider.header ?? name, provider.header ? provider.credential : value);
    }
    if (to) return;
    passage?.clean(attempt);
    const { body } = attempt;
    const edits: Edit[] = [];
    if (body.modelField) edits.push({ ...body.modelField, bytes: Buffer.from(model) });
    const member = body.member("model");
    const name = JSON.stringify(model);
    // A name that is the vendor's own already leaves the body as the very buffers that came.
    if (member && body.slice(member.start, member.end).toString() !== name) edits.push(replaceMember(member, name));
    const usage = this.askForUsage(exchange, body);
    if (usage) edits.push(usage);
    attempt.edit(edits);
  }

  private askForUsage(exchange: Exchange, body: Body): Edit | undefined {
    const ask = exchange.protocol.includeUsage;
    if (!ask || exchange.operation.streams !== "asked" || body.member("stream")?.kind !== "true" || !body.scan) return;
    const asked = { stream: true, stream_options: body.value("stream_options") };
    if (!ask.missing(asked)) return;
    const added = ask.member(asked);
    this.hidden.add(exchange);
    return setMember(body.scan, added.name, added.json);
  }

  response(exchange: Exchange, head: Head): Stage | undefined | Promise<Stage | undefined> {
    const attempt = exchange.attempts.at(-1);
    const passage = this.passages.get(exchange);
    passage?.declare();
    if (passage && attempt?.operation) return passage.receive(attempt, head);
    if (head.status >= 500 && exchange.operation.task === "count" && translationOf(exchange.protocol)?.count)
      return new Passage(exchange, new Map(), this.envelopes).estimated(head);
    if (head.status >= 400 && !head.framing) return refused(exchange, head);
    if (isPage(head))
      throw new GatewayError("upstream_invalid", {
        message: "The provider answered with a web page.",
        hint: "Correct the provider's url in gateway.yaml.",
      });
    const { includeUsage } = exchange.protocol;
    if (!head.framing || !includeUsage || !this.hidden.has(exchange)) return undefined;
    return (frame) => (includeUsage.extra(frame) ? [] : frame);
  }

  /** Answers a count of tokens that no provider can make with an estimate, and says that it is one. */
  private estimated(exchange: Exchange): boolean {
    const { protocol, operation } = exchange;
    if (operation.task !== "count" || !translationOf(protocol)?.count) return false;
    exchange.answer = { status: 200, ...new Passage(exchange, new Map(), this.envelopes).estimate() };
    return true;
  }
}

/**
 * Writes an attempt in the protocol it was planned in, which it answers. One that is merely better for the request gives
 * way to the client's own where it cannot take the request.
 */
function translated(passage: Passage, { protocol }: Exchange, attempt: Attempt): TranslatedProtocol | undefined {
  const { provider, via } = attempt.target;
  const to = passage.to(attempt.target);
  try {
    if (to) passage.send(attempt, to);
    return to;
  } catch (thrown) {
    const judged = thrown instanceof GatewayError && thrown.status === 400;
    if (judged && via !== to?.name && provider.speaks.includes(protocol.name)) return undefined;
    throw thrown;
  }
}

const isPage = ({ status, headers, framing }: Head): boolean =>
  !framing && status < 300 && (headers.get("content-type") ?? "").startsWith("text/html");

function notServed(exchange: Exchange): GatewayError {
  const spoken = [...new Set(exchange.targets.flatMap(({ provider }) => provider.speaks))];
  return new GatewayError("not_served", {
    message: `The model "${exchange.model?.id}" is not served in the protocol ${exchange.protocol.name}.`,
    hint: `Its providers speak ${spoken.join(", ")}; use a path of one of these.`,
    param: "model",
  });
}
