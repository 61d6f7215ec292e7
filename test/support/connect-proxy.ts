import { connect, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import type { Test } from "tap";
import { listen } from "./listen.ts";
import { certificate, key } from "./tls.ts";

/** An HTTP proxy whose state tests can inspect. */
export interface ConnectProxy {
  /** Its address, without credentials. */
  readonly address: string;
  /** The heads of its requests, unchanged. */
  readonly heads: string[];
  /** Open connections of clients. */
  readonly sockets: Set<Socket>;
}

/**
 * Starts a proxy that accepts CONNECT and resolves every name to this machine, with the requested port.
 *
 * @param answer responds instead; false: the tunnel is opened
 */
export async function connectProxy(
  t: Test,
  {
    answer = () => false,
    secure = false,
  }: { answer?: (socket: Socket, head: string) => unknown; secure?: boolean } = {},
): Promise<ConnectProxy> {
  const heads: string[] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket)).on("error", () => {});
    let head = "";
    socket.on("data", function read(bytes: Buffer) {
      head += bytes.toString("latin1");
      if (!head.endsWith("\r\n\r\n")) return;
      heads.push(head);
      if (answer(socket, head) !== false) {
        head = "";
        return;
      }
      socket.off("data", read);
      const behind = connect(Number(/^CONNECT \S+:(\d+) /.exec(head)?.[1]), "127.0.0.1", () => {
        socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
        socket.pipe(behind).pipe(socket);
      });
      behind.on("error", () => socket.destroy()).on("close", () => socket.destroy());
      socket.on("close", () => behind.destroy());
    });
  };
  const server = secure ? createTlsServer({ cert: certificate, key }, serve) : createServer(serve);
  const port = await listen(t, server);
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
  });
  return { address: `${secure ? "https" : "http"}://127.0.0.1:${port}`, heads, sockets };
}
