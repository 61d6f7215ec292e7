import type { Chain } from "../core/chain.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { explainExchange } from "../explain.ts";
import type { ExchangeParts } from "../pipeline.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { ReceiveBody } from "./receive-body.ts";
import { type Reply, sendOwnJson } from "./reply.ts";

const HEADER = "gateway-explain";

/**
 * Reports whether a client asks for an explanation of its request.
 * @throws GatewayError `invalid_field` for another value of the header
 */
export function wantsExplanation(headers: HeaderList): boolean {
  const value = headers.get(HEADER);
  if (value === undefined) return false;
  if (value === "dry-run") return true;
  throw new GatewayError("invalid_field", {
    message: `The header ${HEADER} has the value ${JSON.stringify(value)}.`,
    hint: "It takes dry-run: the request is explained, and no provider is asked.",
    param: HEADER,
  });
}

/**
 * Refuses to explain a passthrough request, which would really be sent to the provider.
 * @throws GatewayError `invalid_field`
 */
export function refuseExplanation(headers: HeaderList): void {
  if (!wantsExplanation(headers)) return;
  throw new GatewayError("invalid_field", {
    message: "This is a pass-through path: there is nothing to explain.",
    hint: `Leave the header ${HEADER} out.`,
    param: HEADER,
  });
}

/** Responds with an explanation of a request; a caller without access is refused as usual. Never throws. */
export async function sendExplanation(
  exchange: Exchange,
  chain: Chain,
  parts: ExchangeParts,
  receive: ReceiveBody,
  reply: Reply,
): Promise<void> {
  const explanation = await explainExchange(exchange, chain, parts, receive, false);
  // One that is broken off may have been refused already, while its body was awaited.
  if (explanation.refused?.by?.endsWith(".access") || exchange.aborted || exchange.interruption) {
    reply.refuse(exchange.error);
    return;
  }
  const body = Buffer.from(`${JSON.stringify(explanation, undefined, 2)}\n`);
  sendOwnJson(reply.response, { status: 200, lines: ["cache-control", "no-store", ...reply.gatewayHeaders()], body });
}
