import type { Socket } from "node:net";
import { GatewayError } from "../core/errors.ts";
import { newId } from "../core/id.ts";
import { type ServerResponse, STATUS_CODES } from "../core/node-http.ts";
import { takeRefusalLine } from "../core/refusal-lines.ts";
import type { Generation } from "../generation.ts";
import { HTTP2_MESSAGE, HTTP2_PREFACE, http2Refusal } from "../wire/http2-refusal.ts";
import type { ClientConnection } from "./connections.ts";
import { headTooLarge } from "./guard.ts";

/** The parser's error code for a head that is too large. */
const OVERFLOW = "HPE_HEADER_OVERFLOW";
/** Node's error code for a head that has not arrived in time. */
const TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT";

/**
 * Answers what node's parser refused, or did not receive in time.
 * @param onRefused called with the code of the error that is sent
 */
export function onParserError(
  error: NodeJS.ErrnoException,
  socket: Socket,
  connection: ClientConnection,
  generation: Generation,
  onRefused: (code: string) => void,
): void {
  const refuse = () => refuseHead(error, socket, connection, generation, onRefused);
  if (error.code !== TIMEOUT) {
    refuse();
    return;
  }
  const { headsReceived } = connection;
  if (connection.busy) {
    // The client has not finished a further head. Node reports that only once, so the connection ends after the responses that
    // are queued.
    if (connection.lastResponse) connection.lastResponse.shouldKeepAlive = false;
    return;
  }
  // Node checks the timeout before it reads: if this process was busy, the head may already be in the socket.
  setImmediate(() => {
    if (connection.headsReceived === headsReceived) refuse();
  });
}

/** Refuses a head. The client's protocol is unknown, so the body is JSON of the common protocol. */
function refuseHead(
  error: NodeJS.ErrnoException,
  socket: Socket,
  { lastResponse, address }: ClientConnection,
  { common, config, log }: Generation,
  onRefused: (code: string) => void,
): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  if (lastResponse && !mayRefuse(lastResponse)) {
    socket.destroySoon();
    return;
  }
  const id = newId(Date.now());
  const { headers, head_size: size } = config.connections;
  const refusal = error.code === OVERFLOW ? headTooLarge({ headers, size }) : headError(error, lastResponse);
  const body = common.error(refusal, id);
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    "content-type: application/json",
    `x-request-id: ${id}`,
    "x-should-retry: false",
    "connection: close",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  const speaksHttp2 = error.code === HTTP2_PREFACE && !lastResponse;
  socket.end(speaksHttp2 ? http2Refusal() : `${head.join("\r\n")}\r\n\r\n${body}`);
  socket.destroySoon();
  if (takeRefusalLine(log))
    log.info({ id, address, status: refusal.status, error: { code: refusal.code, cause: error.code } }, "refused");
  onRefused(refusal.code);
}

/**
 * Reports whether an error may be written to a connection: not inside an unfinished response, nor before its turn, where it would
 * be read as part of that response or as the response to another request.
 */
const mayRefuse = (last: ServerResponse): boolean =>
  last.headersSent ? last.req.complete && last.writableFinished : last.socket !== null;

/** @param last the previous response on the connection */
function headError({ code }: NodeJS.ErrnoException, last: ServerResponse | undefined): GatewayError {
  if (code === TIMEOUT)
    return new GatewayError("body_timeout", { message: "The head of the request did not arrive in time." });
  if (code === HTTP2_PREFACE) return new GatewayError("bad_request", { message: HTTP2_MESSAGE });
  const longer = last?.req.complete && !last.headersSent;
  return new GatewayError(
    "bad_request",
    longer ? { hint: "The body is longer than content-length says: count bytes, not characters." } : {},
  );
}
