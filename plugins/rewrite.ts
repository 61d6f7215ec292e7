import {
  type Attempt,
  type Body,
  type Edit,
  type Head,
  Marketplace,
  type Plugin,
  type ResponseExchange,
  type RouteExchange,
  type SendExchange,
  type Stage,
  setMember,
  slot,
  Translations,
} from "model-gateway";
import { injectable } from "tsyringe";

/** Values of `stream` that mean false to every server: some servers accept `1` and `"true"` for true. */
const NOT_STREAMED = new Set<string | undefined>([undefined, "false", "null"]);

/**
 * Encodes an attempt for its target: the vendor's model names, and a request for usage where the vendor sends it only on
 * request. Between equal protocols nothing else changes; otherwise request and response are translated.
 */
@injectable()
export default class Rewrite implements Plugin {
  static after = ["models"];

  private readonly state = slot(
    (): { translation?: Awaited<ReturnType<Translations["plan"]>>; askedForUsage?: true } => ({}),
  );

  /** The JSON of the vendor's model names. */
  private readonly json = new Map<string, string>();

  constructor(
    private readonly translations: Translations,
    private readonly marketplace: Marketplace,
  ) {}

  route(exchange: RouteExchange): void | Promise<void> {
    const translation = this.translations.plan(exchange);
    if (translation instanceof Promise) return translation;
    if (translation) this.state(exchange).translation = translation;
  }

  send(exchange: SendExchange, attempt: Attempt): void | Promise<void> {
    if (attempt.withoutState)
      this.state(exchange).translation ??= this.translations.translationOfUntranslated(exchange);
    const reading = this.state.existing(exchange)?.translation?.prepare(attempt);
    return reading ? reading.then(() => this.write(exchange, attempt)) : this.write(exchange, attempt);
  }

  private write(exchange: SendExchange, attempt: Attempt): void {
    if (this.state.existing(exchange)?.translation?.encode(attempt)) return;
    const { model, provider } = attempt.target;
    const { requestedModel, pathModel, caller } = exchange;
    attempt.mapOtherModels(caller, ({ name, path }) =>
      name === requestedModel || name === pathModel
        ? model
        : this.marketplace.otherModelName(name, path, provider, caller),
    );
    const { body } = attempt;
    const { scan } = body;
    const refusal = exchange.protocol.whyNotSendable?.(attempt.target.provider, body);
    if (refusal) throw refusal;
    const edits: Edit[] = [];
    if (body.modelField) edits.push({ ...body.modelField, bytes: Buffer.from(model) });
    const member = scan?.find("model");
    const name = this.json.getOrInsertComputed(model, JSON.stringify);
    // A name that is already the vendor's own leaves the body's original buffers unchanged.
    if (scan && member && body.text(member) !== name) edits.push(setMember(scan, "model", name));
    const usage = this.askForUsage(exchange, body);
    if (usage) edits.push(usage);
    const others = attempt.lookAlikes();
    if (others.edits.length > 0) {
      edits.push(...others.edits);
      exchange.dropped.push(...others.names.filter((other) => !exchange.dropped.includes(other)));
    }
    attempt.edit(edits);
  }

  private askForUsage(exchange: SendExchange, body: Body): Edit | undefined {
    const { protocol, operation } = exchange;
    const ask = protocol.includeUsage;
    if (!ask || operation.streams !== "asked" || NOT_STREAMED.has(body.member("stream")?.kind) || !body.scan) return;
    const request = { stream: true, stream_options: body.uniqueValue("stream_options") };
    if (!ask.missing(request)) return;
    const added = ask.member(request);
    // A member that asks for it in another vendor's way may have been removed for this provider.
    if (!ask.expected({ ...request, usage: exchange.body.value("usage") })) this.state(exchange).askedForUsage = true;
    return setMember(body.scan, added.name, added.json);
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined | Promise<Stage | undefined> {
    const state = this.state.existing(exchange);
    const translation = state?.translation;
    translation?.reportLosses();
    const attempt = exchange.attempts.at(-1);
    if (translation && attempt?.operation) return translation.translateResponse(exchange, attempt, head);
    if (head.status >= 500 && this.translations.canEstimateCount(exchange))
      return this.translations.translationOfUntranslated(exchange).replaceByEstimate(head);
    if (head.status >= 400 && !head.framing) return this.translations.checkErrorResponse(exchange, head);
    const { includeUsage } = exchange.protocol;
    if (!head.framing || !includeUsage || !state?.askedForUsage) return undefined;
    // The client did not request a chunk that only carries usage.
    return (frame) => (includeUsage.extra(frame) ? [] : frame);
  }
}
