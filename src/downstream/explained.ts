import type { Chain } from "../core/chain.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { explain, forCaller } from "../explain.ts";
import type { Parts } from "../pipeline.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { Receive } from "./receive.ts";
import { finish, type Reply } from "./reply.ts";

const HEADER = "gateway-explain";

/**
 * Reports whether a client asks for an explanation of its request.
 * @throws GatewayError `invalid_field` for another value of the header
 */
export function asksToExplain(headers: HeaderList): boolean {
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
export function explainsNothing(headers: HeaderList): void {
  if (!asksToExplain(headers)) return;
  throw new GatewayError("invalid_field", {
    message: "This is a pass-through path: there is nothing to explain.",
    hint: `Leave the header ${HEADER} out.`,
    param: HEADER,
  });
}

/** Responds with an explanation of a request; a caller without access is refused as usual. Never throws. */
export async function explained(
  exchange: Exchange,
  chain: Chain,
  parts: Parts,
  receive: Receive,
  reply: Reply,
): Promise<void> {
  const explanation = await explain(exchange, chain, parts, receive);
  if (explanation.refused?.by?.endsWith(".access") || explanation.refused?.code === "client_gone") {
    reply.refuse(exchange.error);
    return;
  }
  const body = Buffer.from(`${JSON.stringify(forCaller(explanation), undefined, 2)}\n`);
  const own = reply.ownHeaders();
  const lines = [
    "content-type",
    "application/json",
    "content-length",
    String(body.length),
    "cache-control",
    "no-store",
  ];
  finish(reply.response.writeHead(200, [...lines, ...own]), body);
}
