import type { Target } from "../core/marketplace.ts";
import type { RoutedExchange } from "../core/phases.ts";
import type { Protocols } from "../core/protocols.ts";
import { betterProtocolOf, clientTranslationOf, isTranslatable, type TranslatedProtocol } from "./codec.ts";

/** The protocol into which requests to a target are translated. */
export interface ProtocolChoice {
  readonly protocol: TranslatedProtocol;
  /** Used instead for conversations that need it according to `protocol`. */
  readonly better?: TranslatedProtocol | undefined;
}

/**
 * Chooses the protocol for a target, in this order: `via` in gateway.yaml; a protocol of the provider that serves this
 * request better; the client's own; the provider's first that can be translated. Undefined: there is none.
 * "own" is the client's, whose bytes pass without translation.
 */
export function chooseProtocol(
  exchange: RoutedExchange,
  target: Target,
  protocols: Protocols,
): ProtocolChoice | "own" | undefined {
  const { name } = exchange.protocol;
  const { protocolName } = target;
  const { speaks } = target.provider;
  const better = betterProtocolOf(exchange.protocol);
  const mayBeBetter = better !== undefined && speaks.includes(better.protocol);
  if (!speaks.includes(name)) return chooseOther(exchange, target, protocols, undefined);
  if (protocolName === name || (protocolName === undefined && !mayBeBetter)) return "own";
  return chooseOther(exchange, target, protocols, "own");
}

/** @param own what is chosen where no other protocol is */
function chooseOther(
  exchange: RoutedExchange,
  target: Target,
  protocols: Protocols,
  own: "own" | undefined,
): ProtocolChoice | "own" | undefined {
  const { protocol, operation } = exchange;
  const { provider, protocolName, model, facts = {} } = target;
  const better = betterProtocolOf(protocol);
  if (!clientTranslationOf(protocol) || operation.task === undefined) return own;
  const translatable = (name: string | undefined): TranslatedProtocol | undefined => {
    const candidate = name === undefined || !provider.speaks.includes(name) ? undefined : protocols.find(name);
    if (!candidate || candidate === protocol || !isTranslatable(candidate)) return undefined;
    return operation.task === "count" && !candidate.translation.count ? undefined : candidate;
  };
  const configured = translatable(protocolName);
  if (configured) return { protocol: configured };
  const preferred = better && translatable(better.protocol);
  if (preferred && better.isNeededFor(exchange.body.lazyMembers(), { model, facts })) return { protocol: preferred };
  if (own) return own;
  const first = provider.speaks.map(translatable).find((candidate) => candidate !== undefined);
  return first && { protocol: first, better: translatable(first.better?.protocol) };
}
