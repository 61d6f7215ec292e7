import type { IncomingMessage, ServerResponse } from "node:http";
import { AdminError } from "./errors.ts";

/** Bytes of a request's body. */
const BODY = 64 * 1024;

/** Nothing of this is kept by browsers or shown in frames of others. */
export const HEADERS = {
  "cache-control": "no-store",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

/** Answers with JSON, or with nothing. */
export function send(response: ServerResponse, status: number, body: unknown): void {
  if (body === undefined) response.writeHead(status, HEADERS).end();
  else response.writeHead(status, { ...HEADERS, "content-type": "application/json" }).end(`${JSON.stringify(body)}\n`);
}

/** The JSON that was sent; an object without members where nothing was. @throws AdminError */
export async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      length += piece.length;
      if (length > BODY) throw new AdminError("too_large", `A body has ${BODY} bytes at most.`);
      pieces.push(piece);
    }
  } catch (thrown) {
    if (thrown instanceof AdminError || request.complete) throw thrown;
    throw new AdminError("bad_request", "The connection ended before the body.");
  }
  if (length === 0) return {};
  if (!request.headers["content-type"]?.startsWith("application/json"))
    throw new AdminError("bad_request", "The body must be JSON, and say so: content-type: application/json.");
  try {
    const body: unknown = JSON.parse(Buffer.concat(pieces).toString());
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw new AdminError("bad_request", "The body must be a JSON object.");
}
