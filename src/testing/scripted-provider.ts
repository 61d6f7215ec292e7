import type { Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { Body } from "../core/body.ts";
import { createServer, type IncomingMessage, type ServerResponse } from "../core/node-http.ts";
import type { DemoAnswer, Protocol, TextKind } from "../core/protocol.ts";
import { requestTexts } from "../core/texts.ts";
import { identifyRequest } from "../upstream/demo.ts";
import { socketPair } from "./memory-socket.ts";
import { encodeProviderAnswer, type ProviderAnswer } from "./provider-answer.ts";

/** A request as a provider got it. */
export interface SentRequest {
  method: string;
  /** The whole address, like `http://any.test/v1/messages`. */
  url: string;
  /** The protocol that the address belongs to. */
  protocol: string;
  headers: Record<string, string>;
  body: Buffer;
  /** @throws SyntaxError where the body is not JSON */
  // biome-ignore lint/suspicious/noExplicitAny: a test knows what it looks for
  json(): any;
  /** Returns the human-readable texts in it, of the given kinds or of all. */
  texts(...kinds: TextKind[]): string[];
}

/** How a provider answers a test's request. */
export interface TestResponder {
  /** Called with each request. */
  answer(sent: SentRequest): ProviderAnswer | Promise<ProviderAnswer>;
  /** Size in bytes of the pieces in which answers are sent; undefined: one piece per frame. */
  chunkBytes: number | undefined;
}

/** Header by which a provider identifies a test's request; no plugin sees it. */
export const MARK_HEADER = "gateway-test";

/** All providers of a gateway under test: real HTTP on connections inside the process. */
export class ScriptedProvider {
  private readonly server = createServer((request, response) => {
    this.serve(request, response).catch((thrown: unknown) => this.failed(thrown, request, response));
  });

  /** @param parts the answers of each test, by its mark */
  constructor(
    private readonly protocols: readonly Protocol[],
    private readonly parts: ReadonlyMap<string, TestResponder & { failed(thrown: unknown): void }>,
  ) {}

  /** Returns a connection to the provider at an address. */
  connect(): Socket {
    const [near, far] = socketPair();
    this.server.emit("connection", far);
    return near;
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const part = this.parts.get(String(request.headers[MARK_HEADER]));
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>));
    const identified = identifyRequest(this.protocols, request.url ?? "/", body);
    if (!part || !identified) throw new Error(`No protocol's usual path leads to ${request.url}.`);
    const { [MARK_HEADER]: _mark, ...headers } = request.headers;
    const answer = await part.answer({
      method: request.method ?? "",
      url: `http://${headers.host}${request.url}`,
      protocol: identified.protocol.name,
      headers: headers as Record<string, string>,
      body,
      json: () => JSON.parse(body.toString()) as unknown,
      texts: (...kinds) =>
        requestTexts(new Body([body], "json"), identified.protocol, kinds.length > 0 ? kinds : undefined).map(
          ({ text }) => text,
        ),
    });
    await writeAnswer(
      response,
      encodeProviderAnswer(identified.protocol, identified.request, answer),
      part.chunkBytes,
      answer.breakAfter,
    );
  }

  private failed(thrown: unknown, request: IncomingMessage, response: ServerResponse): void {
    this.parts.get(String(request.headers[MARK_HEADER]))?.failed(thrown);
    response.destroy();
  }
}

/** Writes an answer piece by piece. */
async function writeAnswer(
  response: ServerResponse,
  { status, headers, frames }: DemoAnswer,
  chunkBytes: number | undefined,
  breakAfter = Number.POSITIVE_INFINITY,
): Promise<void> {
  response.writeHead(status, headers).flushHeaders();
  let left = breakAfter;
  const bytes = frames.map((frame) => Buffer.from(frame.bytes));
  for (const piece of chunkBytes === undefined ? bytes : splitBytes(Buffer.concat(bytes), chunkBytes)) {
    await turn();
    if (piece.length > 0) response.write(piece.subarray(0, left));
    left -= piece.length;
    if (left > 0) continue;
    // A broken connection would lose what has not been sent yet.
    while ((response.socket?.writableLength ?? 0) > 0) await turn();
    response.destroy();
    return;
  }
  response.end();
}

/** Yields pieces of a given size. */
export function* splitBytes(bytes: Buffer, size: number): Generator<Buffer> {
  if (!(size >= 1)) throw new RangeError(`chunkBytes: ${size} is no number of bytes.`);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
