import { setImmediate as turn } from "node:timers/promises";
import type { Attempt } from "../core/attempt.ts";
import { Body } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/head.ts";
import type { Target } from "../core/marketplace.ts";
import type { ResponseExchange, RoutedExchange } from "../core/phases.ts";
import { shorten } from "../core/shorten.ts";
import type { Stage } from "../core/stage.ts";
import type { Usage } from "../core/usage.ts";
import { Frame } from "../wire/frame.ts";
import { matchesName } from "../wire/header-names.ts";
import { addMissing, HeaderList, withLength } from "../wire/headers.ts";
import { parseInSteps } from "../wire/parse-in-steps.ts";
import { totalLength } from "../wire/pieces.ts";
import type { JsonObject } from "../wire/values.ts";
import type { ProtocolChoice } from "./choose-protocol.ts";
import { toClientError } from "./client-error.ts";
import { isTranslatable, type ResponseContext, type TranslatedProtocol, translationOf } from "./codec.ts";
import type { Conversation } from "./conversation.ts";
import type { Envelopes } from "./envelope.ts";
import { errorText, isJson } from "./error-response.ts";
import { estimateRequestTokens, estimateRequestTokensInSteps } from "./estimate.ts";
import type { Opaque } from "./events.ts";
import { FEATURES, type Feature } from "./features.ts";
import { Framing } from "./framing.ts";
import { Losses, MAX_PATH_LENGTH } from "./losses.ts";
import {
  type ClientRequest,
  type RequestDestination,
  readRequest,
  readRequestInSteps,
  type WrittenRequest,
  writeRequest,
  writeRequestInSteps,
} from "./request.ts";
import { bytesInSteps, LARGE_BODY_BYTES, oneAtATime, runBriefly, runInTurns, type Steps } from "./steps.ts";
import {
  decodeWhole,
  encodeWhole,
  encodeWholeAsStream,
  type ResponseTranslation,
  StreamTranslator,
} from "./translator.ts";
import { removeUnreadable } from "./unreadable.ts";

/** Maximum bytes of a response that is translated as a whole. */
const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/**
 * Reports whether a provider cannot count tokens, or not at the moment. It is estimated then: clients count to stay within
 * limits.
 */
const cannotCount = (status: number): boolean => status === 404 || status === 405 || status >= 500;
/** Client headers that are independent of protocols, where an attempt has them: with `trace: off` it has no trace. */
const NEUTRAL_HEADERS = new Set(["accept-language", "user-agent", "traceparent"]);
/** Features whose content is stored at a vendor; the request holds only an id. */
const STORED_FEATURES: ReadonlySet<Feature> = new Set(["stored_state", "cache_handle"]);
/** Maximum number of omitted paths in the log. */
const MAX_LOGGED_DROPS = 20;

/** A request encoded for a target, also as bytes where that took turns of its own. */
type PreparedBody = WrittenRequest & { readonly bytes?: readonly Buffer[] };

/** An answer to a token count, with an estimate. */
interface CountEstimate {
  body: string;
  headers: Record<string, string>;
}

/** The translation of one exchange: its request is decoded once, and encoded for each target that needs it. */
export class ExchangeTranslation {
  /** The request body that the state below was decoded from. */
  private source: Body;
  private decoded: Conversation | undefined;
  /** The error of decoding in many turns. */
  private decodeFailure: { readonly thrown: unknown } | undefined;
  /** The result of encoding in many turns. */
  private prepared: { readonly attempt: Attempt; readonly result: () => PreparedBody } | undefined;
  private written: Pick<WrittenRequest, "names" | "wrapped"> | undefined;
  private losses: Losses | undefined;

  /**
   * @param targets those that need another protocol than the client's
   * @param mayHoldState whether the request may hold state of providers of other protocols
   * @param owners the owner of new state, followed by other possible owners of the request's state
   */
  constructor(
    private readonly exchange: RoutedExchange,
    private readonly targets: ReadonlyMap<Target, ProtocolChoice>,
    private readonly envelopes: Envelopes,
    private readonly mayHoldState: boolean,
    private readonly owners: readonly string[] = [""],
  ) {
    this.source = exchange.body;
  }

  /** The request's JSON text. */
  get text(): string {
    return this.source.bytes().toString();
  }

  /** Resets the decoded state where a plugin has changed the body for one attempt. */
  private resetIfChanged({ body }: Attempt): void {
    if (body === this.source) return;
    this.source = body;
    this.decoded = this.decodeFailure = this.prepared = undefined;
  }

  /**
   * Decodes and encodes a large request in many turns of the event loop, before `encode`; undefined where nothing is translated,
   * or the request is small. Never rejects: `encode` throws the error.
   */
  prepare(attempt: Attempt): Promise<void> | undefined {
    const choice = this.targets.get(attempt.target);
    if (attempt.body.length < LARGE_BODY_BYTES || !choice) return undefined;
    this.resetIfChanged(attempt);
    return this.prepareInTurns(attempt, choice);
  }

  private async prepareInTurns(attempt: Attempt, choice: ProtocolChoice): Promise<void> {
    await turn();
    const conversation = this.decoded ?? (this.decodeFailure ? undefined : await this.decodeInTurns());
    if (!conversation) return;
    try {
      const to = protocolFor(conversation, attempt.target, choice);
      const written = await this.inTurns(
        writeRequestInSteps(conversation, destination(attempt, to), this.exchange.strict),
      );
      await this.nextTurn();
      const bytes = await this.inTurns(bytesInSteps(written.encoded.body));
      this.prepared = { attempt, result: () => ({ ...written, bytes }) };
    } catch (thrown) {
      this.prepared = {
        attempt,
        result: () => {
          throw thrown;
        },
      };
    }
    await turn();
  }

  private async decodeInTurns(): Promise<Conversation | undefined> {
    try {
      const bytes = this.source.bytes();
      await this.nextTurn();
      const request = this.received(bytes);
      await this.nextTurn();
      this.decoded = await this.inTurns(readRequestInSteps(request, this.envelopes));
    } catch (thrown) {
      this.decodeFailure = { thrown };
    }
    return this.decoded;
  }

  /** Runs each step in a turn of its own. @throws GatewayError `client_gone` once the exchange has ended */
  private inTurns<Result>(steps: Steps<Result>): Promise<Result> {
    return runInTurns(steps, () => this.nextTurn());
  }

  private async nextTurn(): Promise<void> {
    await turn();
    if (this.exchange.signal.aborted) throw new GatewayError("client_gone");
  }

  /** The client's request, decoded. @throws GatewayError `invalid_field`, `invalid_json` */
  get conversation(): Conversation {
    const { decodeFailure } = this;
    this.decoded ??= this.source.parse(() => {
      if (decodeFailure) throw decodeFailure.thrown;
      return readRequest(this.received(), this.envelopes);
    });
    return this.decoded;
  }

  /**
   * Encodes an attempt in its planned protocol. Where that was chosen only as better for the request and cannot take it, the
   * protocol is used that it was better than.
   * @returns false where the client's own bytes are sent, without the state that this provider cannot read, and repaired where it
   * would refuse them for state that they lack
   * @throws GatewayError `invalid_field`, `not_translatable`
   */
  encode(attempt: Attempt): boolean {
    this.losses = this.written = undefined;
    this.resetIfChanged(attempt);
    const choice = this.targets.get(attempt.target);
    if (choice && this.translateAsChosen(attempt, choice)) return true;
    this.removeUnreadableState(attempt);
    return false;
  }

  /**
   * Encodes an attempt in its planned protocol, else in the one that this is better than. Returns false where the client's own is
   * to be used.
   */
  private translateAsChosen(attempt: Attempt, choice: ProtocolChoice): boolean {
    const { provider, protocolName } = attempt.target;
    const { protocol, better } = choice;
    try {
      this.translate(attempt, protocolFor(this.conversation, attempt.target, choice));
      return true;
    } catch (thrown) {
      const isRefusal = thrown instanceof GatewayError && thrown.status === 400;
      const speaksOwn = protocolName !== protocol.name && provider.speaks.includes(this.exchange.protocol.name);
      if (!isRefusal || !(speaksOwn || better)) throw thrown;
    }
    if (better) this.translate(attempt, protocol);
    return better !== undefined;
  }

  private removeUnreadableState(attempt: Attempt): void {
    const { protocol } = this.exchange;
    if (!isTranslatable(protocol)) return;
    const { source } = this;
    const to = destination(attempt, protocol);
    if (!attempt.withoutState && !this.mayHoldState && !mayLackState(this.exchange, source, attempt.target)) return;
    const { edits, losses } = removeUnreadable(
      source.bytes(),
      source.json() as JsonObject,
      this.envelopes,
      to,
      this.exchange.strict,
      this.owners,
    );
    this.losses = attempt.losses = losses;
    attempt.edit(edits);
  }

  /** @param bytes of the body, to parse it in steps */
  private received(bytes?: Buffer): ClientRequest {
    const { protocol, operation, caller, wantsStream: streaming } = this.exchange;
    const { owners } = this;
    const request = { protocol, operation, streaming, caller: caller?.id ?? "", owners };
    return bytes ? { ...request, bytes } : { ...request, text: this.text };
  }

  private translate(attempt: Attempt, to: TranslatedProtocol): void {
    const { exchange } = this;
    const prepared = this.prepared?.attempt === attempt ? this.prepared : undefined;
    this.prepared = undefined;
    const written: PreparedBody = prepared
      ? prepared.result()
      : writeRequest(this.conversation, destination(attempt, to), exchange.strict);
    const { encoded, losses, names, wrapped, bytes = [Buffer.from(encoded.body)] } = written;
    this.written = { names, ...(wrapped && { wrapped }) };
    this.losses = attempt.losses = losses;
    attempt.protocol = to;
    attempt.operation = encoded.operation;
    attempt.method = encoded.operation.method;
    attempt.query = encoded.query ?? "";
    attempt.headers = targetHeaders(exchange, attempt, to, encoded.headers ?? [], exchange.wantsStream);
    attempt.body = new Body(bytes, "json");
  }

  /** Reports to the client what the encoded request lost. */
  reportLosses(): void {
    const { exchange, losses } = this;
    for (const path of losses?.dropped ?? []) exchange.dropped.push(path);
    for (const notice of losses?.notices ?? []) exchange.notices.push(notice);
  }

  /**
   * Translates the target's response into the client's protocol.
   * @throws GatewayError the provider's error, or one for an invalid response
   */
  async translateResponse(exchange: ResponseExchange, attempt: Attempt, head: Head): Promise<Stage> {
    if (head.status >= 300) {
      if (this.conversation.task === "count" && cannotCount(head.status)) return this.replaceByEstimate(head);
      throw await this.errorOf(exchange, attempt, head);
    }
    const { framing } = head;
    const translation = this.translation(exchange, attempt);
    if (framing && this.exchange.wantsStream) {
      const translator = new StreamTranslator(translation, head.reserve);
      this.setStreamHead(head, translator.framing);
      return (frame) => {
        const frames = translator.stage(frame);
        // A ping may come before the first event, whose encoding still reads the request.
        if (translator.framing.state.frames > 0) this.decoded = undefined;
        return frames;
      };
    }
    const bytes = (await head.readBody?.(MAX_RESPONSE_BYTES)) ?? Buffer.alloc(0);
    try {
      const isLarge = bytes.length >= LARGE_BODY_BYTES;
      const translated =
        this.conversation.task === "count"
          ? this.translateCount(attempt, head, bytes)
          : isLarge
            ? this.translateInTurns(this.translateWhole(translation, head, bytes), head, bytes.length)
            : this.translateBriefly(this.translateWhole(translation, head, bytes), head);
      const stage = translated instanceof Promise ? await translated : translated;
      // The client may take long to read the answer.
      this.decoded = undefined;
      return stage;
    } catch (thrown) {
      // The provider has done the work, and bills it.
      if (!framing) exchange.usage ??= await usageOf(attempt, bytes);
      throw thrown;
    }
  }

  private *translateWhole(translation: ResponseTranslation, head: Head, bytes: Buffer): Steps<Stage> {
    const events = yield* decodeWhole(translation, bytes, head.framing, head.maxFrame);
    yield;
    if (this.exchange.wantsStream) {
      const target = new Framing(this.exchange.operation);
      return this.replaceByStream(head, target, yield* encodeWholeAsStream(translation, events, target));
    }
    const text = yield* encodeWhole(translation, events);
    yield;
    return this.replaceBody(head, yield* bytesInSteps(text));
  }

  /** Translates a small response: nearly always at once, though one of many tiny elements may become a large one. */
  private translateBriefly(steps: Steps<Stage>, head: Head): Stage | Promise<Stage> {
    const stage = runBriefly(steps, () => this.nextTurn());
    if (!(stage instanceof Promise)) return stage;
    head.isReading = true;
    return stage.finally(() => {
      head.isReading = false;
    });
  }

  /**
   * Translates a large response in many turns of the event loop, until the exchange has ended. The time that this takes depends
   * on the provider's bytes: it is counted like that of reading them.
   */
  private async translateInTurns(steps: Steps<Stage>, head: Head, bytes: number): Promise<Stage> {
    head.isReading = true;
    try {
      return await oneAtATime(bytes, async () => {
        await this.nextTurn();
        return this.inTurns(steps);
      });
    } finally {
      head.isReading = false;
    }
  }

  private translateCount(attempt: Attempt, head: Head, bytes: Buffer): Stage | Promise<Stage> {
    const countCodec = translationOf(attempt.protocol)?.count;
    try {
      return this.replaceBody(head, [Buffer.from(this.encodeCount(countCodec?.decode(bytes.toString()) ?? 0))]);
    } catch {
      // The response is not a token count.
      return this.replaceByEstimate(head);
    }
  }

  /**
   * Replaces a count that the provider cannot make with an estimate: not every provider of a protocol has its counting
   * endpoint.
   */
  replaceByEstimate(head: Head): Stage | Promise<Stage> {
    const replace = ({ body, headers }: CountEstimate): Stage => {
      const stage = this.replaceBody(head, [Buffer.from(body)]);
      for (const [name, value] of Object.entries(headers)) head.headers.set(name, value);
      head.status = 200;
      return stage;
    };
    const estimate = this.estimateCount();
    return estimate instanceof Promise ? estimate.then(replace) : replace(estimate);
  }

  /**
   * Returns an estimate of the request's tokens, marked as one. A promise for a large request, which is read in many turns of the
   * event loop.
   * @throws GatewayError `not_translatable` where most of the prompt may be stored at a vendor
   */
  estimateCount(): CountEstimate | Promise<CountEstimate> {
    if (this.source.length >= LARGE_BODY_BYTES) return this.estimateInTurns();
    this.refuseStoredFeatures();
    return this.countEstimate(estimateRequestTokens(this.conversation, this.text));
  }

  private async estimateInTurns(): Promise<CountEstimate> {
    if (!this.decoded && !this.decodeFailure) await this.decodeInTurns();
    this.refuseStoredFeatures();
    return this.countEstimate(await this.inTurns(estimateRequestTokensInSteps(this.conversation, this.text)));
  }

  private refuseStoredFeatures(): void {
    for (const { feature, path, hint, details } of this.conversation.uses)
      if (STORED_FEATURES.has(feature))
        new Losses("", this.exchange.strict).refuse(
          path,
          `${FEATURES[feature]} can be counted by that vendor only`,
          hint,
          details,
        );
  }

  private countEstimate(total: number): CountEstimate {
    return { body: this.encodeCount(total), headers: { "gateway-estimate": "input_tokens" } };
  }

  private encodeCount(total: number): string {
    return translationOf(this.exchange.protocol)?.count?.encode(total) ?? "{}";
  }

  /** Sets the head of a whole response, and returns the stage that replaces the upstream's bytes with these. */
  private replaceBody(head: Head, pieces: readonly Buffer[]): Stage {
    const { framing } = head;
    const state = new Framing(this.exchange.operation).state;
    head.headers = withLength(contentTypeHeaders("application/json"), totalLength(pieces));
    head.framing = undefined;
    head.translated = { framing, state };
    return (frame) => (frame.kind === "end" ? [...pieces.map((bytes) => new Frame("piece", bytes)), frame] : []);
  }

  /** Sets the head of a stream, and returns the stage that replaces the upstream's bytes with its frames. */
  private replaceByStream(head: Head, framing: Framing, frames: readonly Frame[]): Stage {
    this.setStreamHead(head, framing);
    return (frame) => (frame.kind === "end" ? [...frames, frame] : []);
  }

  private setStreamHead(head: Head, { type, state }: Framing): void {
    const { framing } = head;
    head.headers = contentTypeHeaders(type);
    head.framing = this.exchange.operation.framing;
    head.translated = { framing, state };
  }

  private async errorOf(exchange: ResponseExchange, attempt: Attempt, head: Head): Promise<Error> {
    const { status, headers } = head;
    const text = await errorText(head);
    const { decodeError } = (attempt.protocol as TranslatedProtocol).translation.response;
    const fault = decodeError(status, headers, text);
    const usage = await usageOf(attempt, Buffer.from(text));
    // Some responses report zeros for work that was not done.
    if (usage && (usage.in.total ?? 0) + (usage.out.total ?? 0) > 0) exchange.usage = usage;
    // An error that no client could parse has one code, translated or not.
    const clientFault = isJson(text) ? fault : { ...fault, code: "upstream_failed" };
    return toClientError(clientFault, headers, this.exchange.protocol.overloadedStatus);
  }

  private translation(exchange: ResponseExchange, { target, protocol }: Attempt): ResponseTranslation {
    return {
      from: protocol as TranslatedProtocol,
      to: exchange.protocol,
      operation: exchange.operation,
      source: { account: target.provider.name, model: target.model },
      ...(this.written as Pick<WrittenRequest, "names" | "wrapped">),
      context: new ExchangeContext(exchange, this, this.envelopes, this.owners),
    };
  }
}

/** What an exchange's encoder uses. A class: the getters of an object literal would keep all that is around them in memory. */
class ExchangeContext implements ResponseContext {
  readonly model: string;
  readonly id: string;
  readonly created: number;
  private members: Record<string, unknown> | undefined;

  constructor(
    private readonly exchange: ResponseExchange,
    private readonly translated: { readonly conversation: Conversation },
    private readonly envelopes: Envelopes,
    private readonly owners: readonly string[],
  ) {
    this.model = exchange.requestedModel ?? "";
    this.id = exchange.id;
    this.created = Math.floor(exchange.time / 1000);
  }

  get conversation(): Conversation {
    return this.translated.conversation;
  }

  get request(): Record<string, unknown> {
    this.members ??= this.exchange.body.lazyMembers();
    return this.members;
  }

  // Bound, as encoders take them out of their object.
  readonly seal = (opaque: Opaque): string => this.envelopes.seal(opaque, this.owners[0]);

  readonly mark = (id: string): string => this.envelopes.ids.mark(id, this.owners[0] ?? "");

  readonly remember = (callId: string, opaque: Opaque): void =>
    this.envelopes.remember(this.exchange.caller?.id ?? "", callId, opaque);

  readonly drop = (path: string): void => {
    const { droppedFromResponse: paths } = this.exchange;
    const short = shorten(path, MAX_PATH_LENGTH);
    if (paths.length < MAX_LOGGED_DROPS && !paths.includes(short)) paths.push(short);
  };
}

/** Returns the protocol that serves a conversation at a target. */
const protocolFor = (
  conversation: Conversation,
  { model, facts = {} }: Target,
  { protocol, better }: ProtocolChoice,
): TranslatedProtocol =>
  better && protocol.better?.isNeededForConversation(conversation, { model, facts }) ? better : protocol;

/** Reports whether a target of the client's own protocol may refuse a request for state that was lost before the gateway. */
export const mayLackState = (
  { protocol, operation, strict }: RoutedExchange,
  body: Body,
  { model, facts = {}, provider: { url } }: Target,
): boolean =>
  !strict &&
  operation.task === "generate" &&
  translationOf(protocol)?.request.opaque.lost?.mayBeIn(body, { model, facts, url }) === true;

const destination = (
  { target, withoutState, withoutSummary }: Attempt,
  protocol: TranslatedProtocol,
): RequestDestination => ({
  protocol,
  account: target.provider.name,
  model: target.model,
  facts: target.facts ?? {},
  url: target.provider.url,
  withoutState,
  withoutSummary,
});

const contentTypeHeaders = (type: string): HeaderList => new HeaderList(["content-type", type]);

/**
 * Returns headers for the target's protocol: the client's neutral ones, those that the operator forwards, and those that
 * plugins added.
 */
function targetHeaders(
  { headers, protocol }: RoutedExchange,
  attempt: Attempt,
  to: TranslatedProtocol,
  encoded: readonly (readonly [name: string, value: string])[],
  streaming: boolean,
): HeaderList {
  const { forward } = attempt.target.provider;
  const defaults = protocol.defaultHeaders ?? [];
  const isAdded = (name: string) => !headers.has(name) && !defaults.some(([defaultName]) => defaultName === name);
  const result = attempt.headers.filter(
    (name) => NEUTRAL_HEADERS.has(name) || matchesName(name, forward) || isAdded(name),
  );
  result.set("content-type", "application/json");
  result.set("accept", streaming ? "text/event-stream" : "application/json");
  for (const [name, value] of encoded) result.set(name, value);
  addMissing(result, to.defaultHeaders);
  return result;
}

/** Returns the usage in a whole response; of a large one in many turns of the event loop. */
async function usageOf({ protocol }: Attempt, bytes: Buffer): Promise<Usage | undefined> {
  try {
    return protocol.usage(await runInTurns(parseInSteps(bytes)));
  } catch {
    return undefined;
  }
}
