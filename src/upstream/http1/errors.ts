/**
 * What went wrong in the client itself. Errors of the system (`ECONNREFUSED`) keep their own class.
 *
 * - `CONNECTION_CLOSED`: by the other side, in the middle of something.
 * - `POOL_CLOSED`: by us, because the gateway stops.
 * - `REQUEST_INVALID`: it cannot be written without breaking out of its line; the message says which part.
 * - `BODY_LENGTH_WRONG`, `BODY_BROKEN_OFF`: a streamed body is not as long as was announced, or has no end.
 * - `RESPONSE_…`: what came is not HTTP/1.1, or could be read in two ways.
 * - `PROXY_…`: a proxy opened no way to the provider; the message names it, without its credentials.
 *
 * The code goes to the log; no byte of a response does.
 */
export type Http1ErrorCode =
  | "CONNECTION_CLOSED"
  | "POOL_CLOSED"
  | "REQUEST_INVALID"
  | "BODY_LENGTH_WRONG"
  | "BODY_BROKEN_OFF"
  | `RESPONSE_${string}`
  | `PROXY_${string}`;

/** An error of the HTTP/1.1 client. */
export class Http1Error extends Error {
  override readonly name = "Http1Error";
  constructor(
    readonly code: Http1ErrorCode,
    /** What a caller may be told of it. */
    readonly explanation?: string,
  ) {
    super(explanation ?? code);
  }
}
