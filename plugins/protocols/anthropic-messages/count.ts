import { asCount, asObject, GatewayError } from "model-gateway/protocol";

/** Reads how many tokens a request has. @throws GatewayError `upstream_invalid` */
export function decodeCount(text: string): number {
  const total = asCount(asObject(parsed(text))?.["input_tokens"]);
  if (total === undefined) throw new GatewayError("upstream_invalid");
  return total;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new GatewayError("upstream_invalid", { cause });
  }
}

/** Writes it. */
export const encodeCount = (total: number): string => JSON.stringify({ input_tokens: total });
