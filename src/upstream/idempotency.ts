import { hash } from "node:crypto";
import type { Exchange } from "../core/exchange.ts";
import type { Target } from "../core/marketplace.ts";
import type { HeaderList } from "../wire/headers.ts";

/** What vendors call the header by which they know a request that they have answered before. */
const USUAL = "idempotency-key";

/**
 * Makes a client's own idempotency key one of its gateway key and of the target that is asked. To a provider all keys are one
 * account: with the key that another one had chosen, a client would get that one's answer, and with a fallback's target an answer to
 * another request.
 */
export function scopeIdempotency(
  headers: HeaderList,
  { caller, network }: Pick<Exchange, "caller" | "network">,
  { provider, model }: Target,
): void {
  for (const name of new Set([USUAL, provider.idempotency ?? USUAL])) {
    const value = headers.get(name);
    if (value === undefined) continue;
    const whose = caller ? ["key", caller.id] : ["address", network];
    headers.set(name, hash("sha256", JSON.stringify([...whose, provider.name, model, value]), "base64url"));
  }
}
