import { createServer, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { WebSocket, WebSocketServer } from "ws";
import { listen, type Teardown } from "./listen.ts";
import { certificate, key } from "./tls.ts";

/** A WebSocket provider. */
export interface SocketUpstream {
  readonly port: number;
  /** Received handshakes, in order. */
  readonly handshakes: IncomingMessage[];
  /** The provider's ends of all connections, open or closed. */
  readonly sockets: WebSocket[];
  /** Received messages, as text. */
  readonly messages: string[];
  /** Received close codes. */
  readonly codes: number[];
}

/** Returns the response to a message; a number closes with that code. By default messages are echoed. */
export type Talk = (message: string, socket: WebSocket) => string | number | undefined;

export async function socketUpstream(t: Teardown, talk: Talk = (message) => message): Promise<SocketUpstream> {
  const server = createServer((_request, response) => response.writeHead(200).end("plain HTTP"));
  const sockets = new WebSocketServer({ server, perMessageDeflate: true, maxPayload: 0 });
  const upstream = {
    port: 0,
    handshakes: [] as IncomingMessage[],
    sockets: [] as WebSocket[],
    messages: [] as string[],
  };
  const codes: number[] = [];
  sockets.on("connection", (socket, request) => {
    upstream.handshakes.push(request);
    upstream.sockets.push(socket);
    socket.on("error", () => {});
    socket.on("close", (code) => codes.push(code));
    socket.on("message", (bytes) => {
      const message = String(bytes);
      upstream.messages.push(message);
      const answer = talk(message, socket);
      if (typeof answer === "number") socket.close(answer, "said so");
      else if (answer !== undefined) socket.send(answer);
    });
  });
  t.teardown(() => {
    for (const socket of sockets.clients) socket.terminate();
  });
  return Object.assign(upstream, { port: await listen(t, server), codes });
}

/** Terminates TLS in front of a port, like a load balancer; returns its own port. */
export async function overTls(t: Teardown, to: number): Promise<number> {
  const open = new Set<Socket>();
  const server = createTlsServer({ key, cert: certificate }, (outside) => {
    const inside = connect(to, "127.0.0.1");
    for (const [one, other] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      open.add(one);
      one.on("error", () => {}).on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  t.teardown(() => {
    for (const socket of open) socket.destroy();
  });
  return listen(t, server);
}

/** A client's view of its WebSocket. */
export interface Seen {
  socket: WebSocket;
  messages: string[];
  /** Resolves with the close code. */
  closed: Promise<number>;
}

/** Opens a WebSocket. @throws Error with the status and the body of a refusal */
export function open(
  url: string,
  protocols: readonly string[] = [],
  headers: Record<string, string> = {},
): Promise<Seen> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, [...protocols], { headers });
    const messages: string[] = [];
    const closed = new Promise<number>((end) => socket.on("close", end));
    socket.on("message", (bytes) => messages.push(String(bytes)));
    socket.on("error", reject);
    socket.on("open", () => resolve({ socket, messages, closed }));
    socket.on("unexpected-response", (_request, response) => {
      let body = "";
      response.on("data", (piece: Buffer) => (body += piece));
      response.on("end", () => {
        const refusal = Object.defineProperty(new Error(`${response.statusCode} ${body}`), "headers", {
          value: response.headers,
        });
        reject(refusal);
      });
    });
  });
}
