import type { IncomingMessage, ServerResponse } from "node:http";
import { Body } from "../core/body.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Generation } from "../generation.ts";
import { readBody } from "./body.ts";
import { readForm } from "./form.ts";

/** Reads the body of an exchange, once its caller is known. */
export type Receive = () => Body | Promise<Body>;

/**
 * Returns the function that reads the body.
 * @param waiting the client waits for `100 Continue` before it sends the body
 */
export function receiver(
  exchange: Exchange,
  request: IncomingMessage,
  response: ServerResponse,
  { limits, objects }: Pick<Generation, "limits" | "objects">,
  waiting: boolean,
): Receive {
  return () => {
    if (exchange.operation.body === "none") return Body.empty;
    const go = waiting ? () => response.writeContinue() : undefined;
    if (exchange.operation.body === "json")
      return readBody(request, limits, { json: true, headers: exchange.headers, go });
    // A form's length is not limited: its files stream through.
    go?.();
    const { output, objects: words } = exchange.protocol;
    const beside = output?.times.map(([name]) => String(name));
    const naming = words && objects.namedIn(words);
    return readForm(request, limits, beside, (field) => naming?.namedByField(field) ?? false).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}
