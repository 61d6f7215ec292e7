import type { Socket } from "node:net";
import { GatewayError } from "../core/errors.ts";
import { ServerResponse } from "../core/node-http.ts";
import type { SocketProtocol } from "../core/protocol.ts";
import { flushAndClose } from "../upstream/pass.ts";
import { type HeaderList, headerValues } from "../wire/headers.ts";

/**
 * Returns the key of a handshake.
 * @throws GatewayError `bad_request` where headers are not those of a handshake (RFC 6455 §4.2.1)
 */
export function handshakeKey(headers: HeaderList): string {
  const key = headers.get("sec-websocket-key");
  if (headers.get("sec-websocket-version") !== "13" || key === undefined || !/^[A-Za-z0-9+/]{22}==$/.test(key))
    throw new GatewayError("bad_request", { message: "This is no WebSocket handshake.", hint: "Use version 13." });
  return key;
}

/** The content of a handshake's Sec-WebSocket-Protocol. */
interface SubprotocolOffer {
  /** The gateway keys in it. */
  keys: string[];
  /** The subprotocols that may be sent to the provider. */
  protocols: string[];
  /** The subprotocol selected if the provider selects none: a client that offers only its key expects that to be returned. */
  defaultProtocol: string | undefined;
}

/**
 * Removes Sec-WebSocket-Protocol from the headers, so that no key in it can be forwarded or logged.
 * @throws GatewayError `conflicting_api_keys` for several keys: each would be an attempt to guess one
 */
export function takeSubprotocols(headers: HeaderList, known: readonly SocketProtocol[]): SubprotocolOffer {
  const lines = headerValues(headers, "sec-websocket-protocol");
  headers.delete("sec-websocket-protocol");
  const all = lines.flatMap((value) => value.split(",").map((word) => word.trim())).filter((word) => word !== "");
  const keys: string[] = [];
  const protocols: string[] = [];
  for (const entry of all) {
    const key = known.find((word) => entry.startsWith(word.keyPrefix));
    if (key) keys.push(entry.slice(key.keyPrefix.length));
    else if (!known.some(({ hiddenPrefixes }) => hiddenPrefixes.some((start) => entry.startsWith(start))))
      protocols.push(entry);
  }
  if (new Set(keys).size > 1) throw new GatewayError("conflicting_api_keys");
  return { keys, protocols, defaultProtocol: protocols[0] ?? all[0] };
}

/** An HTTP response to a handshake: buffered until `send`, and its connection is closed when it has ended. */
export class HandshakeResponse extends ServerResponse {
  override shouldKeepAlive = false;
  private isSent = false;

  /** Sends what has been written, and all that follows. A second call has no effect: an error may replace a plugin's answer. */
  send(socket: Socket): void {
    if (this.isSent || socket.destroyed) return;
    this.isSent = true;
    this.once("finish", () => {
      this.detachSocket(socket);
      flushAndClose(socket);
    });
    // Node's server, which would pass it on, has released the socket.
    socket.on("timeout", () => this.emit("timeout", socket));
    this.assignSocket(socket);
  }
}
