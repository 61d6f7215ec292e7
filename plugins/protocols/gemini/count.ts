import { asCount, asObject, GatewayError } from "model-gateway/protocol";

/** Answers of `countTokens`: `{"totalTokens": n, …}`. */
export const count = {
  /** @throws GatewayError `upstream_invalid` for anything but such an answer. */
  decode(text: string): number {
    const answer = asObject(parsed(text)) ?? refuse();
    // A count of 0 is left out on the wire (proto JSON).
    return asCount(answer["totalTokens"] ?? 0) ?? refuse();
  },
  encode: (total: number): string => JSON.stringify({ totalTokens: total }),
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    return refuse(cause);
  }
}

function refuse(cause?: unknown): never {
  throw new GatewayError("upstream_invalid", { message: "The provider's count of tokens cannot be read.", cause });
}
