import { Body } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Head } from "../core/head.ts";
import type { Marketplace, Model, Target } from "../core/marketplace.ts";
import type { ResponseExchange, RoutedExchange, RouteExchange } from "../core/phases.ts";
import type { Protocol } from "../core/protocol.ts";
import type { Protocols } from "../core/protocols.ts";
import { ownersOf, type Share } from "../objects/share.ts";
import type { ByteSpan } from "../wire/splice.ts";
import { base64Spans, hasLongBase64 } from "./base64-spans.ts";
import { chooseProtocol, type ProtocolChoice } from "./choose-protocol.ts";
import { betterProtocolOf, clientTranslationOf, translationOf } from "./codec.ts";
import type { Envelopes } from "./envelope.ts";
import { checkErrorResponse } from "./error-response.ts";
import { estimateMediaTokens } from "./estimate.ts";
import { ExchangeTranslation, mayLackState } from "./exchange-translation.ts";
import { type TokenRange, tokensOfLong } from "./media-content.ts";
import { isExclusive, modelReach, type Reach } from "./reach.ts";
import { contentAt, tokensInRequest } from "./request-tokens.ts";
import { runFirstAtOnce } from "./steps.ts";

/** Decides for each exchange of a generation whether and how it is translated. A plugin's constructor can request it. */
export class Translations {
  /** By protocol name: whether its clients are translated for some model, so that their requests may hold envelopes. */
  private readonly mixedByProtocol = new Map<string, boolean>();
  /** Cached by a model's targets: lists of many models are requested often. */
  private readonly reachCache = new WeakMap<Model["targets"], Readonly<Record<string, Reach>>>();

  constructor(
    private readonly protocols: Protocols,
    private readonly envelopes: Envelopes,
    private readonly marketplace: Marketplace,
    private readonly share: Share = "key",
  ) {}

  /**
   * Keeps only the targets that can serve an exchange, each with its best protocol, and estimates a token count that no target
   * can make.
   * @returns its translation; undefined where the client's bytes pass unchanged; a promise where a large count is being estimated
   * @throws GatewayError `not_served` where no target can serve it, `no_target` where a plugin has left none
   */
  plan(exchange: RouteExchange): ExchangeTranslation | undefined | Promise<undefined> {
    let others: Map<Target, ProtocolChoice> | undefined;
    const { targets } = exchange;
    let served: Target[] | undefined;
    for (let i = 0; i < targets.length; i++) {
      const target = targets[i] as Target;
      const chosen = chooseProtocol(exchange, target, this.protocols);
      if (chosen === undefined) served ??= targets.slice(0, i);
      else served?.push(target);
      if (chosen === undefined || chosen === "own") continue;
      others ??= new Map();
      others.set(target, chosen);
    }
    if (served) exchange.targets = served;
    if (exchange.targets.length === 0) {
      if (this.canEstimateCount(exchange)) return this.answerByEstimate(exchange);
      throw targets.length === 0 ? new GatewayError("no_target") : notServed(exchange, targets);
    }
    const mayHoldState = this.mayHoldState(exchange);
    if (!others && !mayHoldState && !this.mayLackState(exchange)) return undefined;
    return new ExchangeTranslation(
      exchange,
      others ?? new Map(),
      this.envelopes,
      mayHoldState,
      ownersOf(this.share, exchange.caller),
    );
  }

  /** Returns the account whose state a request holds: the one that created the last of it. */
  stateOrigin({ protocol, body, caller }: RoutedExchange): { account?: string; model?: string } | undefined {
    if (!clientTranslationOf(protocol) || !this.isMixed(protocol)) return undefined;
    return this.envelopes.openLast(body.pieces, ownersOf(this.share, caller));
  }

  /**
   * Checks a provider's error in the client's own protocol. The provider's bytes pass unchanged; where they mean that no
   * credit is left, which some providers report with a 429, the response tells clients not to retry.
   * @throws GatewayError with the same status where no client can parse the body: a proxy's page, a plain text, nothing
   */
  checkErrorResponse(exchange: ResponseExchange, head: Head): Promise<undefined> {
    return checkErrorResponse(exchange, head);
  }

  /** Returns the protocols that serve a model, also over a WebSocket, and how, by name. */
  reach(model: Model): Readonly<Record<string, Reach>> {
    return this.reachCache.getOrInsertComputed(model.targets, () => this.computeReach(model));
  }

  private computeReach(model: Model): Readonly<Record<string, Reach>> {
    const { all } = this.protocols;
    const isSpoken = ({ name }: Protocol) => model.targets.some(({ provider: { speaks } }) => speaks.includes(name));
    return Object.fromEntries(
      all.flatMap((protocol) => {
        const reach = protocol.socket ? isSpoken(protocol) && "native" : modelReach(protocol, model, all);
        return reach ? [[protocol.name, reach]] : [];
      }),
    );
  }

  /** Reports whether an exchange is a token count that could be estimated. */
  canEstimateCount({ protocol, operation }: RoutedExchange): boolean {
    return operation.task === "count" && translationOf(protocol)?.count !== undefined;
  }

  /**
   * Returns a translation for an untranslated exchange: to estimate a count that its provider cannot make, or to leave out state
   * that its provider has refused.
   */
  translationOfUntranslated(exchange: RoutedExchange): ExchangeTranslation {
    return new ExchangeTranslation(exchange, new Map(), this.envelopes, false, ownersOf(this.share, exchange.caller));
  }

  /**
   * Estimates the tokens of a request without a count, and their upper bound; undefined where it is not a conversation, or has
   * no long base64: only that can be far fewer tokens than its bytes suggest. A promise where much has to be read beside the
   * base64, which takes many turns of the event loop.
   */
  tokensIn(exchange: RoutedExchange): TokenRange | undefined | Promise<TokenRange | undefined> {
    const { protocol, operation, caller, body } = exchange;
    if (operation.task !== "generate" || !clientTranslationOf(protocol)) return undefined;
    if (!hasLongBase64(body.pieces)) return undefined;
    const owners = ownersOf(this.share, caller);
    const request = { protocol, operation, caller: caller?.id ?? "", owners };
    const steps = tokensInRequest(request, body, this.envelopes);
    try {
      const tokens = runFirstAtOnce(steps);
      return tokens instanceof Promise ? tokens.catch(() => undefined) : tokens;
    } catch {
      // A provider has accepted what translation would refuse.
      return undefined;
    }
  }

  /** Estimates the tokens of a request's media; 0 where it is not a conversation. */
  mediaTokensIn(exchange: RoutedExchange): number {
    if (exchange.operation.task !== "generate" || !clientTranslationOf(exchange.protocol)) return 0;
    try {
      return estimateMediaTokens(this.translationOfUntranslated(exchange).conversation);
    } catch {
      // A provider has accepted what a translation would refuse.
      return 0;
    }
  }

  /**
   * Finds media and opaque state in the bytes of a long request, without parsing it. Returns where they are, and estimates their
   * tokens.
   */
  longMediaIn(pieces: readonly Buffer[]): (ByteSpan & { readonly tokens: number })[] {
    const body = new Body(pieces, undefined);
    return base64Spans(pieces).map(({ kind, ...span }) => {
      if (kind === "opaque") return { ...span, tokens: 0 };
      return { ...span, tokens: tokensOfLong(kind, contentAt(body, span).content) };
    });
  }

  /** Responds to a token count with an estimate, marked as one. */
  private answerByEstimate(exchange: RouteExchange): undefined | Promise<undefined> {
    const estimate = this.translationOfUntranslated(exchange).estimateCount();
    if (estimate instanceof Promise)
      return estimate.then((answer) => {
        exchange.answer = { status: 200, ...answer };
        return undefined;
      });
    exchange.answer = { status: 200, ...estimate };
    return undefined;
  }

  /**
   * Reports whether a request to a provider of its own protocol may hold envelopes: a conversation begun with a provider of
   * another protocol holds that provider's state.
   */
  private mayHoldState({ protocol, operation, targets, body }: RoutedExchange): boolean {
    if (operation.task === undefined || !clientTranslationOf(protocol)) return false;
    // Also where another protocol is better for the request: that one may be unable to take it.
    return isSpokenByAny(targets, protocol.name) && this.isMixed(protocol) && this.envelopes.mayBeIn(body.pieces);
  }

  /** Reports whether a target may refuse the client's own bytes for state that they lack. */
  private mayLackState(exchange: RouteExchange): boolean {
    const { protocol, targets, body } = exchange;
    for (const target of targets)
      if (target.provider.speaks.includes(protocol.name) && mayLackState(exchange, body, target)) return true;
    return false;
  }

  private isMixed(protocol: RoutedExchange["protocol"]): boolean {
    return this.mixedByProtocol.get(protocol.name) ?? this.findMixed(protocol);
  }

  private findMixed(protocol: RoutedExchange["protocol"]): boolean {
    const { name } = protocol;
    const better = betterProtocolOf(protocol);
    const mixed = this.marketplace.models
      .flatMap((model) => model.targets)
      .some(
        ({ provider: { speaks }, protocolName = name }) =>
          protocolName !== name || !speaks.includes(name) || (better !== undefined && speaks.includes(better.protocol)),
      );
    this.mixedByProtocol.set(name, mixed);
    return mixed;
  }
}

/** Reports whether the provider of a target speaks a protocol. */
function isSpokenByAny(targets: readonly Target[], protocol: string): boolean {
  for (const { provider } of targets) if (provider.speaks.includes(protocol)) return true;
  return false;
}

function notServed({ model, protocol, operation }: RoutedExchange, targets: readonly Target[]): GatewayError {
  const spokenProtocols = [...new Set(targets.flatMap(({ provider }) => provider.speaks))];
  const exclusive = spokenProtocols.filter((name) => isExclusive(name, model?.capabilities ?? []));
  const suggested = exclusive.length > 0 ? exclusive : spokenProtocols;
  const { name } = protocol;
  // The protocol may serve the model for operations that can be translated.
  const untranslated = clientTranslationOf(protocol) && operation.task === undefined;
  return new GatewayError("not_served", {
    message: untranslated
      ? `"${operation.name}" is not translated into other protocols, and no provider of the model "${model?.id}" speaks ${name}.`
      : `The model "${model?.id}" is not served in the protocol ${name}.`,
    hint: `Its providers speak ${suggested.join(", ")}; use a path of ${suggested.length > 1 ? "one of these" : "that"}.`,
    param: "model",
  });
}
