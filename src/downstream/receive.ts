import type { IncomingMessage, ServerResponse } from "node:http";
import { Body } from "../core/body.ts";
import type { Exchange } from "../core/exchange.ts";
import { type BodyLimits, readBody } from "./body.ts";
import { readForm } from "./form.ts";
import { namesObject } from "./query-names.ts";

/** Reads the body of an exchange, once its caller is known. */
export type Receive = () => Body | Promise<Body>;

/** @param waiting the client waits for `100 Continue` before it sends the body. */
export function receiver(
  exchange: Exchange,
  request: IncomingMessage,
  response: ServerResponse,
  limits: BodyLimits,
  waiting: boolean,
): Receive {
  return () => {
    if (exchange.operation.body === "none") return Body.empty;
    if (waiting) response.writeContinue();
    if (exchange.operation.body === "json") return readBody(request, limits, { json: true, headers: exchange.headers });
    const { protocol } = exchange;
    const beside = protocol.output?.times.map(([name]) => String(name));
    return readForm(request, limits, beside, (name) => namesObject(name, protocol)).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}
