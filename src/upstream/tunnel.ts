import { subscribe } from "node:diagnostics_channel";
import { createRequire } from "node:module";
import type { Readable } from "node:stream";
import type { Dispatcher, EnvHttpProxyAgent } from "undici";
import { closedUnseen } from "./failures.ts";
import { ConnectionError } from "./http1/connection.ts";
import type { HttpRequest, RequestController } from "./http1/http-request.ts";
import { answerHead, checkRequest, outgoingHeaders } from "./http1/request-head.ts";

/** What a tunnel needs to know beside the origin. */
export interface TunnelOptions extends EnvHttpProxyAgent.Options {
  connections: number;
}

/** Bodies up to this are joined, so that head and body leave in one write. */
const JOIN_LIMIT = 64 * 1024;

/** The way to an origin when HTTPS_PROXY or HTTP_PROXY may stand in between: undici knows how to ask a proxy. */
export class Tunnel {
  /** It cannot be known whether a connection had served before. */
  readonly made = Number.NaN;
  private readonly dispatcher: Dispatcher;

  constructor(
    readonly origin: string,
    options: TunnelOptions,
  ) {
    // Loaded only where it is wanted: it would make up a fifth of what is kept in memory.
    const { EnvHttpProxyAgent } = createRequire(import.meta.url)("undici") as typeof import("undici");
    this.dispatcher = new EnvHttpProxyAgent(options);
  }

  send(call: HttpRequest): void {
    const wrong = checkRequest(call);
    if (wrong) {
      call.onError(wrong);
      return;
    }
    const { origin } = this;
    const { method, path, body } = call;
    const size = Array.isArray(body) ? (body as readonly Buffer[]).reduce((sum, { length }) => sum + length, 0) : 0;
    const joined = Array.isArray(body) && size <= JOIN_LIMIT ? Buffer.concat(body as Buffer[], size) : body;
    const length = Buffer.isBuffer(joined) ? undefined : Array.isArray(joined) ? size : call.length;
    const headers = outgoingHeaders(call.fields, length);
    // undici sends any iterable of buffers; its types know only streams.
    this.dispatcher.dispatch({ origin, method, path, headers, body: joined as Readable }, new Tunnelled(call));
  }

  /** undici asks whether a call is still wanted when it has a connection. */
  cancel(): void {}

  close(): Promise<void> {
    return this.dispatcher.close();
  }

  destroy(): Promise<void> {
    return this.dispatcher.destroy(new ConnectionError("LANE_CLOSED"));
  }
}

/** Connections that have carried a request, and the call that undici is writing to one. */
const used = new WeakSet<object>();
let starting: Tunnelled | undefined;

// Only here undici tells which connection it takes: within the same step in which it tells a call that it starts.
subscribe("undici:client:sendHeaders", (message) => {
  const { socket } = message as { socket: object };
  if (starting) starting.reused = used.has(socket);
  starting = undefined;
  used.add(socket);
});

/** A call in undici's words. */
class Tunnelled implements Dispatcher.DispatchHandler, RequestController {
  /** The connection has carried another call before. */
  reused = false;
  private controller: Dispatcher.DispatchController | undefined;
  private writtenAt = 0;
  private begun = false;
  private over = false;

  constructor(private readonly call: HttpRequest) {}

  get paused(): boolean {
    return this.controller?.paused ?? false;
  }

  pause(): void {
    this.controller?.pause();
  }

  resume(): void {
    this.controller?.resume();
  }

  abort(): void {
    this.over = true;
    this.controller?.abort(new ConnectionError("ABANDONED"));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.controller = controller;
    this.writtenAt = performance.now();
    if (this.call.onStart(this)) starting = this;
    else this.abort();
  }

  onBodySent(): void {
    if (!this.over) this.call.onBodySent();
  }

  onResponseStarted(): void {
    this.begun = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (this.over || (status < 200 && status !== 101)) return;
    if (status === 101) throw new ConnectionError("ANSWER_UPGRADED");
    this.call.onHead({ status, ...answerHead(controller.rawHeaders as Buffer[]) });
  }

  onResponseData(_controller: Dispatcher.DispatchController, bytes: Buffer): void {
    if (!this.over) this.call.onData(bytes);
  }

  onResponseEnd(): void {
    if (!this.over) this.call.onEnd();
    this.over = true;
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    // The proxy is near, and what lies behind it is not known: no round trip is granted.
    const unseen = this.reused && !this.begun && closedUnseen(error, this.writtenAt, 0);
    if (!this.over) this.call.onError(error, unseen);
    this.over = true;
  }
}
