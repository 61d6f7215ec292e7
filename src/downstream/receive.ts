import type { IncomingMessage, ServerResponse } from "node:http";
import { Body } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange, Form } from "../core/exchange.ts";
import { type BodyLimits, readBody } from "./body.ts";
import { boundaryOf, FieldFinder } from "./multipart.ts";

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
    return readForm(request, limits).then(({ body, form }) => {
      exchange.form = form;
      return body;
    });
  };
}

/**
 * Reads a form as far as its `model` field, which says where it goes; the rest streams through. A form that has the field
 * behind its files is kept up to the limit.
 * @throws GatewayError `unsupported_media_type`, `unsupported_encoding`, `body_too_large`, `body_timeout`, `invalid_field`,
 * `client_gone`
 */
async function readForm(request: IncomingMessage, limits: BodyLimits): Promise<{ body: Body; form: Form }> {
  const boundary = boundaryOf(request.headers["content-type"] ?? "");
  if (boundary === undefined)
    throw new GatewayError("unsupported_media_type", {
      message: "This path takes multipart/form-data with a boundary.",
    });
  if (request.headers["content-encoding"])
    throw new GatewayError("unsupported_encoding", { hint: "Send the form without content-encoding." });
  const finder = new FieldFinder(boundary, "model");
  const pieces: Buffer[] = [];
  let length = 0;
  const ended = await until(request, limits.idle, (piece) => {
    pieces.push(piece);
    length += piece.length;
    finder.push(piece);
    if (length > limits.maxBytes && !finder.found)
      throw new GatewayError("body_too_large", {
        message: "The form's model field was not among its first bytes.",
        hint: "Put the field model before the files.",
      });
    return finder.found !== undefined;
  });
  if (!finder.found)
    throw new GatewayError("invalid_field", { message: 'The form has no field "model".', param: "model" });
  const declared = request.headers["content-length"];
  return {
    body: new Body(pieces, undefined, finder.found),
    form: {
      rest: ended ? undefined : request,
      restLength: declared === undefined ? undefined : Number(declared) - length,
    },
  };
}

/** Hands over pieces until `enough`; then the request is paused. True when it has ended. */
function until(request: IncomingMessage, idle: number, enough: (piece: Buffer) => boolean): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const settle = (act: () => void) => {
      clearTimeout(timer);
      request.off("data", onData).off("end", onEnd).off("close", onClose).pause();
      act();
    };
    const timer = idle > 0 ? setTimeout(() => settle(() => reject(new GatewayError("body_timeout"))), idle) : undefined;
    const onData = (piece: Buffer) => {
      timer?.refresh();
      try {
        if (enough(piece)) settle(() => resolve(false));
      } catch (thrown) {
        settle(() => reject(thrown));
      }
    };
    const onEnd = () => settle(() => resolve(true));
    const onClose = () => settle(() => reject(new GatewayError("client_gone")));
    request.on("data", onData).once("end", onEnd).once("close", onClose);
    // A client that left while a plugin looked at the head has had its close event.
    if (request.destroyed) onClose();
  });
}
