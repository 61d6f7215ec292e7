import { readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** An answer in the file, of which the first that matches a request is sent. */
interface RecordedAnswer {
  /** The beginning of the request's path. */
  path: string;
  /** A text that the request's body contains. */
  with?: string;
  headers: Record<string, string>;
  /** The body; absent: the answer is a stream. */
  body?: unknown;
  events?: { event?: string; data: unknown }[];
}

/** The answer as bytes: each part is written in a turn of the event loop of its own. */
type AnswerParts = readonly Buffer[];

/**
 * The provider of the warm-up: it sends recorded answers of vendors. Their headers and their usage have members that the built-in
 * provider's do not have: V8 discards compiled code at the first object with another member. It also costs next to nothing.
 */
export class WarmUpProvider {
  private readonly sockets = new Set<Socket>();
  private readonly server = createServer((socket) => this.serve(socket));

  private constructor(private readonly answers: readonly (RecordedAnswer & { parts: AnswerParts })[]) {}

  /** Reads the answers and listens. @throws the system's error for the file */
  static async start(file: URL): Promise<WarmUpProvider> {
    const recorded = JSON.parse(readFileSync(file, "utf8")) as RecordedAnswer[];
    const provider = new WarmUpProvider(recorded.map((answer) => ({ ...answer, parts: toParts(answer) })));
    await new Promise<void>((resolve) => provider.server.listen(0, "127.0.0.1", resolve));
    provider.server.unref();
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
  }

  private serve(socket: Socket): void {
    let request = "";
    this.sockets.add(socket);
    socket.setNoDelay(true).unref();
    socket.on("error", () => {});
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("data", (bytes) => {
      request += bytes.toString("latin1");
      if (!isWhole(request)) return;
      send(socket, this.find(request));
      request = "";
    });
  }

  private find(request: string): AnswerParts {
    const path = request.slice(request.indexOf(" ") + 1, request.indexOf(" HTTP/"));
    const found = this.answers.find(
      (each) => path.startsWith(each.path) && (!each.with || request.includes(each.with)),
    );
    return found?.parts ?? [Buffer.from("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")];
  }
}

/** Reports whether an HTTP message is complete: with its content-length, or chunked. */
export function isWhole(message: string): boolean {
  const head = message.indexOf("\r\n\r\n");
  if (head < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(message.slice(0, head))?.[1];
  return length === undefined ? message.endsWith("\r\n0\r\n\r\n") : message.length >= head + 4 + Number(length);
}

function send(socket: Socket, parts: AnswerParts, at = 0): void {
  socket.write(parts[at] as Buffer);
  if (at + 1 < parts.length) setImmediate(() => send(socket, parts, at + 1));
}

function toParts({ headers, body, events = [] }: RecordedAnswer): AnswerParts {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = (more: string) => `HTTP/1.1 200 OK\r\n${lines.join("")}${more}\r\n\r\n`;
  if (body !== undefined) {
    const text = JSON.stringify(body);
    return [Buffer.from(`${head(`Content-Type: application/json\r\nContent-Length: ${text.length}`)}${text}`)];
  }
  const chunks = events.map(({ event, data }) => {
    const text = typeof data === "string" ? data : JSON.stringify(data);
    const lines = `${event === undefined ? "" : `event: ${event}\n`}data: ${text}\n\n`;
    return `${lines.length.toString(16)}\r\n${lines}\r\n`;
  });
  const streamHead = head("Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked");
  const half = chunks.length >> 1;
  const reads = [streamHead + chunks[0], chunks.slice(1, half).join(""), `${chunks.slice(half).join("")}0\r\n\r\n`];
  return reads.map((text) => Buffer.from(text));
}
