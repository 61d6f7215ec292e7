import type { IncomingMessage, ServerResponse } from "node:http";
import { asObject, parseJson } from "../wire/values.ts";
import { AdminError } from "./errors.ts";

/** Limit in bytes of a request's body. */
const MAX_BODY = 64 * 1024;

/** Keeps browsers from caching responses and from showing them in other sites' frames. */
export const SECURITY_HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/** Responds with JSON, or without a body. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  if (body === undefined) response.writeHead(status, SECURITY_HEADERS).end();
  else
    response
      .writeHead(status, { ...SECURITY_HEADERS, "content-type": "application/json" })
      .end(`${JSON.stringify(body)}\n`);
}

/** Reads the JSON object that was sent; an empty object for an empty body. @throws AdminError */
export async function readJsonBody(request: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      length += piece.length;
      if (length > MAX_BODY) throw new AdminError("too_large", `A body has ${MAX_BODY} bytes at most.`);
      pieces.push(piece);
    }
  } catch (thrown) {
    if (thrown instanceof AdminError || request.complete) throw thrown;
    throw new AdminError("bad_request", "The connection ended before the body.");
  }
  if (length === 0) return {};
  if (!request.headers["content-type"]?.startsWith("application/json"))
    throw new AdminError("bad_request", "The body must be JSON, and say so: content-type: application/json.");
  const body = asObject(parseJson(Buffer.concat(pieces).toString()));
  if (!body) throw new AdminError("bad_request", "The body must be a JSON object.");
  return body;
}
