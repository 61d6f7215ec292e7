import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "../core/node-http.ts";
import type { DemoAnswer, DemoRequest, Protocol } from "../core/protocol.ts";
import { demoAnswer, demoNotStored } from "../translation/demo.ts";
import { Query } from "../wire/query.ts";
import { parseJson } from "../wire/values.ts";

/** The built-in `demo:` provider: a real HTTP upstream inside the process that serves every protocol's scripted responses. */
export class Demo {
  private readonly server: Server;

  constructor(private readonly protocols: readonly Protocol[]) {
    this.server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
      this.serve(request, response).catch(() => response.destroy());
    });
  }

  /** Listens, and returns its address: a bare origin, as protocols add their own version segment. */
  async start(): Promise<URL> {
    await new Promise<void>((resolve, reject) => this.server.once("error", reject).listen(0, "127.0.0.1", resolve));
    this.server.unref();
    return new URL(`http://127.0.0.1:${(this.server.address() as AddressInfo).port}`);
  }

  async close(): Promise<void> {
    if (!this.server.listening) return;
    this.server.closeAllConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>));
    const target = request.url ?? "/";
    const answer = this.answer(target, body) ?? this.notFoundAnswer(target);
    if (!answer) {
      response.writeHead(404).end();
      return;
    }
    const { status, headers, frames } = answer;
    if (frames.length === 1 && !frames[0]?.cut) {
      if (frames[0]?.after) await after(frames[0].after);
      response.writeHead(status, headers).end(frames[0]?.bytes);
      return;
    }
    response.writeHead(status, headers);
    response.flushHeaders();
    for (const frame of frames) {
      if (frame.after) await after(frame.after);
      if (response.destroyed) return;
      if (frame.cut) {
        response.destroy();
        return;
      }
      if (!response.write(frame.bytes)) await drained(response);
    }
    response.end();
  }

  private answer(target: string, body: Buffer): DemoAnswer | undefined {
    const identified = identifyRequest(this.protocols, target, body);
    return identified && demoAnswer(identified.protocol, identified.request);
  }

  /** Answers requests for stored objects, where other vendors have them, with the protocol's error for an unknown object. */
  private notFoundAnswer(target: string): DemoAnswer | undefined {
    const protocol = this.protocols.find(
      ({ storedResponses, paths }) => storedResponses && target.startsWith(`${paths[0]}/`),
    );
    return protocol && demoNotStored(protocol);
  }
}

/** Waits until the reader has taken what was written, or has left. */
const drained = (response: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const settle = () => {
      response.off("drain", settle).off("close", settle);
      resolve();
    };
    response.on("drain", settle).on("close", settle);
  });

/** Identifies the protocol and operation of a request to a provider by the protocols' default paths; undefined: none matches. */
export function identifyRequest(
  protocols: readonly Protocol[],
  target: string,
  body: Buffer,
): { protocol: Protocol; request: DemoRequest } | undefined {
  const [path = "", text = ""] = target.split("?", 2);
  const query = new Query(text);
  for (const protocol of protocols) {
    for (const pattern of protocol.paths) {
      const isPrefix = pattern.endsWith("*");
      if (isPrefix ? !path.startsWith(pattern.slice(0, -1)) : path !== pattern) continue;
      const located = protocol.locate(pattern, isPrefix ? path.slice(pattern.length - 1) : "", query);
      if (!located) continue;
      const { operation } = located;
      const json = operation.body === "json" ? parseJson(body.toString()) : undefined;
      const members = json as { model?: string; stream?: boolean } | undefined;
      const model = located.model ?? members?.model ?? multipartModelOf(body);
      const streaming = operation.streams === "asked" ? members?.stream === true : operation.streams;
      return { protocol, request: { operation, model, body: json, streaming } };
    }
  }
  return undefined;
}

const multipartModelOf = (body: Buffer): string =>
  /name="?model"?\r\n(?:[^\r\n]+\r\n){0,9}\r\n([^\r\n]+)/.exec(body.toString("latin1"))?.[1] ?? "";
