import { hash } from "node:crypto";
import type { Exchange } from "../core/exchange.ts";
import type { Target } from "../core/marketplace.ts";
import type { HeaderList } from "../wire/headers.ts";

/** The usual header in which vendors expect an idempotency key. */
const DEFAULT_HEADER = "idempotency-key";

type ScopedExchange = Pick<Exchange, "caller" | "network" | "attempts">;

/**
 * Scopes a client's idempotency key to its gateway key and to the target. To a provider all gateway keys are one account: without
 * this, a client could get another client's response by choosing the same key, and a fallback target could return the response to
 * another request.
 */
export function scopeIdempotency(headers: HeaderList, exchange: ScopedExchange, target: Target): void {
  const { idempotency = DEFAULT_HEADER } = target.provider;
  scopeHeader(DEFAULT_HEADER, headers, exchange, target);
  if (idempotency !== DEFAULT_HEADER) scopeHeader(idempotency, headers, exchange, target);
}

function scopeHeader(name: string, headers: HeaderList, exchange: ScopedExchange, target: Target): void {
  const value = headers.get(name);
  if (value === undefined) return;
  const { caller, network } = exchange;
  const { provider, model } = target;
  const refusals = countRefusals(exchange, target);
  const owner = caller ? ["key", caller.id] : ["address", network];
  const parts = [...owner, provider.name, model, value, ...(refusals > 0 ? [`without ${refusals}`] : [])];
  headers.set(name, hash("sha256", JSON.stringify(parts), "base64url"));
}

/** Counts how often a target has refused a part of the request, without which it gets it once more: that is another request. */
export const countRefusals = ({ attempts }: Pick<Exchange, "attempts">, target: Target): number =>
  attempts.filter((each) => each.target === target && (each.refusedState || each.refusedSummary)).length;
