import type { Socket } from "node:net";
import { Http1Error } from "./errors.ts";
import type { HttpProxy } from "./proxies.ts";
import { ResponseParser } from "./response-parser.ts";

/**
 * Requests a tunnel to an origin from a proxy (CONNECT, RFC 9110 §9.3.6) and calls back once; after success, bytes written to the
 * socket go to the origin. The origin does not speak first, so the connection is not used where bytes follow the proxy's
 * response.
 *
 * @param authority host and port of the origin
 */
export function openTunnel(socket: Socket, proxy: HttpProxy, authority: string, done: (error?: Error) => void): void {
  let isOpen = false;
  const parser = new ResponseParser({
    onHead({ status }) {
      if (status !== 200) throw proxyRefusal(proxy, status);
      isOpen = true;
    },
    onBody() {},
    onEnd() {},
  });
  const settle = (error?: Error): void => {
    socket.off("data", onData).off("end", onClose).off("error", onError).off("close", onClose);
    done(error);
  };
  const onError = (thrown: NodeJS.ErrnoException): void => settle(proxyFailure(proxy, thrown));
  const onClose = (): void => settle(proxyFailure(proxy, new Http1Error("CONNECTION_CLOSED")));
  const onData = (bytes: Buffer): void => {
    try {
      const consumed = parser.push(bytes);
      if (!isOpen) return;
      settle(consumed < bytes.length ? proxyFailure(proxy, new Http1Error("RESPONSE_FOLLOWED")) : undefined);
    } catch (thrown) {
      settle(proxyFailure(proxy, thrown as Error));
    }
  };
  parser.expect("CONNECT");
  socket.on("data", onData).on("end", onClose).on("error", onError).on("close", onClose);
  socket.write(`CONNECT ${authority} HTTP/1.1\r\nhost: ${authority}\r\n${proxy.authorization}\r\n`, "latin1");
}

/** The proxy requires credentials (RFC 9110 §15.5.8). */
const AUTHENTICATION_REQUIRED = 407;

/**
 * Returns an error where a response is the proxy's own and not the provider's.
 * @param forwarder the proxy that took the request itself; undefined: none did
 */
export function forwarderRefusal(forwarder: HttpProxy | undefined, status: number): Http1Error | undefined {
  return forwarder && status === AUTHENTICATION_REQUIRED ? proxyRefusal(forwarder, status) : undefined;
}

/**
 * Converts an error of node's own client: a tunnel that was not opened is the proxy's fault, and node's message holds the proxy's
 * full address.
 */
export function tunnelFailure(proxy: HttpProxy | undefined, thrown: Error & { statusCode?: unknown }): Error {
  if (!proxy || !("code" in thrown) || thrown.code !== "ERR_PROXY_TUNNEL") return thrown;
  const { statusCode: status } = thrown;
  return typeof status === "number"
    ? proxyRefusal(proxy, status)
    : proxyFailure(proxy, new Http1Error("CONNECTION_CLOSED"));
}

/** The error for a proxy that refused the request. */
function proxyRefusal({ origin }: HttpProxy, status: number): Http1Error {
  return new Http1Error(
    `PROXY_STATUS_${status}`,
    `The gateway's proxy answered ${status}: it gives no way to the provider.`,
    origin,
  );
}

/** The error for a proxy that could not be reached, or did not respond. */
export function proxyFailure({ origin }: HttpProxy, thrown: NodeJS.ErrnoException): Http1Error {
  if (thrown instanceof Http1Error && thrown.code.startsWith("PROXY_")) return thrown;
  return new Http1Error(`PROXY_${thrown.code ?? thrown.name}`, "The gateway's proxy could not be reached.", origin);
}
