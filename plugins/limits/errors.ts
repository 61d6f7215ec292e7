import { GatewayError } from "model-gateway";
import { describeExcess, type Excess, type LimitLevel, limitOwner } from "model-gateway/store";

/** Seconds above which a client should not retry automatically. */
const LONG_WAIT = 120;

/** Returns the error for an exceeded limit: whose it is, its size, what is left, and when more is available. */
export function limitExceeded(excess: Excess): GatewayError {
  const { limit, retryAfter } = excess;
  const retry = retryAfter !== undefined && retryAfter <= LONG_WAIT;
  const details = {
    ...(limit === "tpm" && { kind: "token_limit" as const }),
    message: `${describeExcess(excess)} ${retryAdvice(excess)}`,
    retry,
    limit,
    retryAfter,
  };
  return new GatewayError(limit === "budget" ? "insufficient_quota" : "rate_limit_exceeded", details);
}

/**
 * Returns the error for a request that alone exceeds the tokens of a minute: waiting does not help.
 * @param tokens an estimate
 */
export function requestTooLarge(level: LimitLevel, tokens: number): GatewayError {
  return new GatewayError("rate_limit_exceeded", {
    kind: "token_limit",
    message: `The request is too large: ${limitOwner(level)} may use ${level.limits.tpm} tokens a minute, and this request may use up to ${tokens}. Shorten it, or limit its answer (max_tokens or its counterpart).`,
    retry: false,
    limit: "tpm",
  });
}

function retryAdvice({ limit, requested, allowed, retryAfter, resets }: Excess): string {
  if (limit === "concurrency") return "Try again when one has ended.";
  if (limit !== "budget") return `Try again in ${Math.ceil(retryAfter ?? 0)} s.`;
  const fewer = "Request a shorter answer (max_tokens or its counterpart)";
  if (retryAfter !== undefined && retryAfter <= 1) return `${fewer}, or try again when others have ended.`;
  if (requested > allowed || resets === undefined) return `${fewer}, or ask the operator.`;
  return `${fewer}, or try again after ${new Date(resets).toISOString()}.`;
}
