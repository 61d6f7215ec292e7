/**
 * Error codes of the client itself. Errors of the system (`ECONNREFUSED`) keep their own class.
 *
 * - `CONNECTION_CLOSED`: by the other side, in the middle of a message.
 * - `POOL_CLOSED`: by us, because the gateway stops.
 * - `REQUEST_INVALID`: writing it would allow injection into the head; the message says which part.
 * - `BODY_LENGTH_WRONG`, `BODY_BROKEN_OFF`: a streamed body has another length than announced, or was cut off.
 * - `RESPONSE_…`: the response is not HTTP/1.1, or is ambiguous.
 * - `PROXY_…`: a proxy opened no connection to the provider; `proxy` names it, without its credentials.
 *
 * The code goes to the log; no byte of a response does.
 */
type Http1ErrorCode =
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
    /** The part that clients may see. */
    readonly explanation?: string,
    /** The proxy that it happened at, without its credentials: for the log, as it is of the operator's own network. */
    readonly proxy?: string,
  ) {
    super(explanation ?? code);
  }
}
