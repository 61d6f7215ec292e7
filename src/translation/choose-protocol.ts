import type { Body } from "../core/body.ts";
import type { Target } from "../core/marketplace.ts";
import type { RoutedExchange } from "../core/phases.ts";
import type { Protocols } from "../core/protocols.ts";
import { betterProtocolOf, clientTranslationOf, isTranslatable, type TranslatedProtocol } from "./codec.ts";

/**
 * Chooses the protocol for a target, in this order: `via` in gateway.yaml; a protocol of the provider that serves this
 * request better; the client's own; the provider's first that can be translated. Undefined: there is none.
 * "own" is the client's, whose bytes pass without translation.
 */
export function chooseProtocol(
  exchange: RoutedExchange,
  target: Target,
  protocols: Protocols,
): TranslatedProtocol | "own" | undefined {
  const { protocol, operation } = exchange;
  const { provider, protocolName: via } = target;
  const better = betterProtocolOf(protocol);
  const own = provider.speaks.includes(protocol.name) ? "own" : undefined;
  if (own && ((via === undefined && !better) || via === protocol.name)) return own;
  if (!clientTranslationOf(protocol) || operation.task === undefined) return own;
  const other = (name: string | undefined): TranslatedProtocol | undefined => {
    const found = name === undefined || !provider.speaks.includes(name) ? undefined : protocols.find(name);
    if (!found || found === protocol || !isTranslatable(found)) return undefined;
    return operation.task === "count" && !found.translation.count ? undefined : found;
  };
  const wanted =
    other(via) ??
    (better && other(better.protocol) && better.isNeededFor(lazyMembers(exchange.body))
      ? other(better.protocol)
      : undefined);
  return wanted ?? own ?? provider.speaks.map(other).find((found) => found !== undefined);
}

/** Returns a body's top-level members, each parsed on access: most requests are judged by one or two of them. */
function lazyMembers(body: Body): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  for (const { name } of body.scan?.members ?? [])
    Object.defineProperty(all, name, { get: () => body.value(name), enumerable: true, configurable: true });
  return all;
}
