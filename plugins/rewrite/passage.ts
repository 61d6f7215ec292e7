import {
  type Attempt,
  Body,
  type ClientRequest,
  type Conversation,
  type Envelopes,
  type Exchange,
  estimate,
  Frame,
  Framing,
  type Head,
  HeaderList,
  pathOf,
  type RequestDestination,
  type ResponseContext,
  type ResponseTranslation,
  readRequest,
  refusal,
  type Stage,
  StreamTranslator,
  type Target,
  type TranslatedProtocol,
  translates,
  translationOf,
  type WrittenRequest,
  wholeEvents,
  wholeStream,
  wholeText,
  withoutForeign,
  writeRequest,
} from "model-gateway";

/** Bytes of an answer that is translated as a whole, and of one that is an error. */
const LARGEST = 64 * 1024 * 1024;
const LARGEST_ERROR = 1024 * 1024;
/** How providers answer that do not know how to count, or cannot at the moment: clients count to stay within limits. */
const uncounted = (status: number): boolean => status === 404 || status === 405 || status >= 500;
/** Client headers that say nothing of a protocol. */
const NEUTRAL = new Set(["accept-language", "user-agent"]);
/** Kinds of things left unsaid that the log tells. */
const UNSAID = 20;

/** One exchange's way through other protocols: its request read once, written for each target that needs it. */
export class Passage {
  /** The request that the rest was read from. */
  private source: Body;
  private asked: Conversation | undefined;
  private written: WrittenRequest | undefined;

  /**
   * @param targets those that do not get the client's own bytes
   * @param foreign whether the request may carry what providers of other protocols made
   */
  constructor(
    private readonly exchange: Exchange,
    private readonly targets: ReadonlyMap<Target, TranslatedProtocol>,
    private readonly envelopes: Envelopes,
    private readonly foreign = false,
  ) {
    this.source = exchange.body;
  }

  /** The protocol to translate into for a target; undefined where the client's own bytes pass. */
  to(target: Target): TranslatedProtocol | undefined {
    return this.targets.get(target);
  }

  /** The request's JSON text. */
  get text(): string {
    return this.source.bytes().toString();
  }

  /** Reads the request anew where a plugin has changed it for one attempt. */
  private take({ body }: Attempt): void {
    if (body === this.source) return;
    this.source = body;
    this.asked = undefined;
  }

  /** What the client asks. @throws GatewayError `invalid_field` */
  get conversation(): Conversation {
    this.asked ??= readRequest(this.received, this.envelopes);
    return this.asked;
  }

  /**
   * Takes what providers of other protocols made out of an attempt's body.
   * @throws GatewayError `invalid_field`, `not_translatable`
   */
  clean(attempt: Attempt): void {
    const { protocol } = this.exchange;
    this.take(attempt);
    this.written = undefined;
    if (!this.foreign || !translates(protocol)) return;
    this.written = withoutForeign(this.received, this.envelopes, destination(attempt.target, protocol), this.strict);
    attempt.body = new Body([Buffer.from(this.written.encoded.body)], "json");
  }

  private get strict(): boolean {
    const { strict, headers } = this.exchange;
    return strict || /^(?:1|true)$/i.test(headers.get("gateway-strict") ?? "");
  }

  private get received(): ClientRequest {
    const { protocol, operation, headers, query, caller } = this.exchange;
    const { streaming, text } = this;
    return { protocol, operation, streaming, text, headers, query, caller: caller?.id ?? "" };
  }

  /** Writes an attempt in its target's words. @throws GatewayError `invalid_field`, `not_translatable` */
  send(attempt: Attempt, to: TranslatedProtocol): void {
    const { exchange } = this;
    this.take(attempt);
    this.written = writeRequest(this.conversation, destination(attempt.target, to), this.strict);
    const { encoded } = this.written;
    attempt.protocol = to;
    attempt.operation = encoded.operation;
    attempt.method = encoded.operation.method;
    attempt.path = pathOf(attempt.target, to, encoded.operation, encoded.query);
    attempt.headers = headersOf(exchange, attempt, to, encoded.headers ?? [], this.streaming);
    attempt.body = new Body([Buffer.from(encoded.body)], "json");
  }

  /** Tells the client what the request that is answered lost on its way. */
  declare(): void {
    const { exchange, written } = this;
    for (const path of written?.losses.dropped ?? []) exchange.dropped.push(path);
    for (const notice of written?.losses.notices ?? []) exchange.notices.push(notice);
  }

  /** Turns the target's answer into the client's. @throws GatewayError what the provider reports, or what is wrong with it. */
  async receive(attempt: Attempt, head: Head): Promise<Stage> {
    const { exchange } = this;
    if (head.status >= 300) {
      if (this.conversation.task === "count" && uncounted(head.status)) return this.estimated(head);
      throw await this.failure(attempt, head);
    }
    const { framing } = head;
    const crossing = this.crossing(attempt);
    if (framing && this.streaming) {
      const translator = new StreamTranslator(crossing);
      this.streams(head, translator.framing);
      return translator.stage;
    }
    const bytes = await whole(head, LARGEST);
    try {
      return this.conversation.task === "count"
        ? this.counted(attempt, head, bytes)
        : this.whole(crossing, head, bytes);
    } catch (thrown) {
      // The provider has done the work, and bills it.
      if (!framing) exchange.usage = usageOf(attempt, bytes);
      throw thrown;
    }
  }

  private whole(crossing: ResponseTranslation, head: Head, bytes: Buffer): Stage {
    const { framing } = head;
    const events = wholeEvents(crossing, bytes, framing);
    if (!this.streaming) return this.answers(head, wholeText(crossing, events));
    const target = new Framing(this.exchange.operation);
    const frames = wholeStream(crossing, events, target);
    this.streams(head, target);
    return (frame) => (frame.kind === "end" ? [...frames, frame] : []);
  }

  private counted(attempt: Attempt, head: Head, bytes: Buffer): Stage {
    const counting = this.to(attempt.target)?.translation.count;
    try {
      return this.answers(head, this.told(counting?.decode(bytes.toString()) ?? 0));
    } catch {
      // It told something else than a count.
      return this.estimated(head);
    }
  }

  /** An estimate in place of a count that the provider did not make: not every one that speaks a protocol counts in it. */
  estimated(head: Head): Stage {
    const { body, headers } = this.estimate();
    const stage = this.answers(head, body);
    for (const [name, value] of Object.entries(headers)) head.headers.set(name, value);
    head.status = 200;
    return stage;
  }

  /** A count of the request's tokens that says it is an estimate. */
  estimate(): { body: string; headers: Record<string, string> } {
    const total = estimate(this.conversation, this.text);
    return { body: this.told(total), headers: { "gateway-estimate": "input_tokens" } };
  }

  private told(total: number): string {
    return translationOf(this.exchange.protocol)?.count?.encode(total) ?? "{}";
  }

  /** The head of a whole answer, and the stage that puts its text in place of the upstream's bytes. */
  private answers(head: Head, text: string): Stage {
    const bytes = Buffer.from(text);
    const { framing } = head;
    const state = new Framing(this.exchange.operation).state;
    head.headers = own("application/json").set("content-length", String(bytes.length));
    head.framing = undefined;
    head.translated = { framing, state };
    this.exchange.streaming = false;
    return (frame) => (frame.kind === "end" ? [new Frame("piece", bytes), frame] : []);
  }

  private streams(head: Head, { type, state }: Framing): void {
    const { framing } = head;
    head.headers = own(type);
    head.framing = this.exchange.operation.framing;
    head.translated = { framing, state };
    this.exchange.streaming = true;
  }

  private async failure(attempt: Attempt, head: Head): Promise<Error> {
    const { status, headers } = head;
    // An error whose text breaks off is still that error.
    const text = await whole(head, LARGEST_ERROR).then(String, () => "");
    const fault = (this.to(attempt.target) as TranslatedProtocol).translation.response.failure(status, headers, text);
    return refusal(fault, headers, this.exchange.protocol.overloaded);
  }

  private get streaming(): boolean {
    const { operation, body } = this.exchange;
    return operation.streams === "asked" ? body.member("stream")?.kind === "true" : operation.streams;
  }

  private crossing({ target }: Attempt): ResponseTranslation {
    const { exchange } = this;
    return {
      from: this.to(target) as TranslatedProtocol,
      to: exchange.protocol,
      operation: exchange.operation,
      source: { account: target.provider.name, model: target.model },
      names: (this.written as WrittenRequest).names,
      context: this.wish(),
    };
  }

  private wish(): ResponseContext {
    const { exchange, envelopes, conversation } = this;
    const caller = exchange.caller?.id ?? "";
    return {
      model: exchange.requestedModel ?? "",
      id: exchange.id,
      created: Math.floor(exchange.time / 1000),
      conversation: conversation,
      get request() {
        return exchange.body.json() as Record<string, unknown>;
      },
      seal: (opaque) => envelopes.seal(opaque),
      remember: (callId, opaque) => envelopes.remember(caller, callId, opaque),
      drop: (path) => {
        if (exchange.droppedFromAnswer.length < UNSAID && !exchange.droppedFromAnswer.includes(path))
          exchange.droppedFromAnswer.push(path);
      },
    };
  }
}

const destination = ({ provider, model, facts = {} }: Target, protocol: TranslatedProtocol): RequestDestination => ({
  protocol,
  account: provider.name,
  model,
  facts,
});

const own = (type: string): HeaderList => new HeaderList(["content-type", type]);

const whole = ({ whole }: Head, limit: number): Promise<Buffer> => whole?.(limit) ?? Promise.resolve(Buffer.alloc(0));

/**
 * Headers in the target's protocol: of the client's only those that are nobody's and what the operator lets through; those
 * that plugins have added stay.
 */
function headersOf(
  { headers, protocol }: Exchange,
  attempt: Attempt,
  to: TranslatedProtocol,
  encoded: readonly (readonly [name: string, value: string])[],
  streaming: boolean,
): HeaderList {
  const { forward } = attempt.target.provider;
  const passes = (name: string) =>
    forward.some((each) => (each.endsWith("*") ? name.startsWith(each.slice(0, -1)) : name === each));
  const usual = protocol.defaults ?? [];
  const added = (name: string) => !headers.has(name) && !usual.some(([each]) => each === name);
  const sent = attempt.headers.filter((name) => NEUTRAL.has(name) || passes(name) || added(name));
  sent.set("content-type", "application/json");
  sent.set("accept", streaming ? "text/event-stream" : "application/json");
  for (const [name, value] of encoded) sent.set(name, value);
  for (const [name, value] of to.defaults ?? []) if (!sent.has(name)) sent.append(name, value);
  return sent;
}

function usageOf({ protocol }: Attempt, bytes: Buffer) {
  try {
    return protocol.usage(JSON.parse(bytes.toString()));
  } catch {
    return undefined;
  }
}
