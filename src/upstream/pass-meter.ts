import type { IncomingHttpHeaders } from "node:http";
import type { Attempt } from "../core/attempt.ts";
import type { GatewayError } from "../core/errors.ts";
import type { ActiveResponse, Exchange } from "../core/exchange.ts";
import { JsonUsage } from "../core/json-usage.ts";
import type { MaybePromise } from "../core/plugin.ts";
import type { Redactor } from "../core/redactor.ts";
import { StreamUsage } from "../core/stream-usage.ts";
import type { PassThroughObjects } from "../objects/pass-through-objects.ts";
import { HeaderList, headerObject, isEventStream } from "../wire/headers.ts";
import { completeHeaders } from "./allow-list.ts";
import type { PassObserver } from "./pass.ts";
import type { PassPath } from "./pass-path.ts";
import { preventRendering } from "./prevent-rendering.ts";
import { addCredentialNotice, recordErrorMessage, recordHead } from "./provider-message.ts";
import { rewriteAddresses } from "./rewrite-addresses.ts";

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i;

/**
 * Records a pass-through exchange: status, bytes of both directions, times, and the tokens that JSON or events of the response
 * report.
 */
export class PassMeter implements PassObserver {
  private usage: JsonUsage | undefined;
  private streamed: StreamUsage | undefined;
  private createsObjects = false;
  changeBody: PassObserver["changeBody"];
  /** Whether the provider does not accept our credential. */
  refused = false;
  /** Whether the error's body says so, and not only the status. */
  confirmedByBody = false;

  /**
   * @param gatewayHeaders header lines that every response of the gateway has: name, value, …
   * @param settle runs before the last byte of a whole response is sent
   */
  constructor(
    private readonly exchange: Exchange,
    private readonly attempt: Attempt,
    private readonly path: PassPath,
    private readonly gatewayHeaders: () => readonly string[],
    readonly redactor: Redactor,
    private readonly objects?: PassThroughObjects,
    private readonly settle = (): void => {},
  ) {
    exchange.received = 0;
  }

  onStart(fail: (error: GatewayError) => void, response: ActiveResponse): void {
    this.objects?.onStart(fail);
    this.exchange.activeResponse = response;
  }

  onRequestBody(bytes: Buffer): MaybePromise<void> {
    this.exchange.received = (this.exchange.received ?? 0) + bytes.length;
    return this.objects?.onRequestData(bytes);
  }

  onRequestEnd(): MaybePromise<void> {
    return this.objects?.onRequestEnd();
  }

  onResponseHead(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders {
    const { exchange, attempt, path } = this;
    const received = new HeaderList([...rawHeaders]);
    const headers = this.redactor.headers(path.responseHeaders(received));
    path.rewriteAddressHeaders(headers, exchange);
    recordHead(exchange, attempt, status, received, this.redactor);
    this.refused = status === 401;
    exchange.streaming = isEventStream(headers.get("content-type"));
    completeHeaders(status, headers);
    // These two have no body for it to describe (RFC 9110 §8.6).
    if (status === 204 || status === 304) headers.delete("content-length");
    if (exchange.streaming) headers.append("x-accel-buffering", "no");
    const isJson = JSON_TYPE.test(headers.get("content-type") ?? "");
    preventRendering(headers);
    if (status < 300 && isJson) {
      this.usage = new JsonUsage(path.protocols);
      this.createsObjects = true;
    } else if (status < 300) this.createsObjects = exchange.streaming;
    // A response that is only fetched again reported its usage when it was created.
    if (status < 300 && exchange.streaming && exchange.method === "POST")
      this.streamed = new StreamUsage(path.protocols);
    if (this.createsObjects) this.objects?.onResponseHead(exchange.streaming);
    const members = this.objects?.addresses ?? [];
    // A partial response is not valid JSON.
    if (status < 300 && status !== 206 && isJson && members.length > 0 && exchange.method !== "HEAD") {
      const changeBody = (body: Buffer): Buffer =>
        rewriteAddresses(body, members, (address) => path.gatewayAddress(address, exchange.origin));
      this.changeBody = changeBody;
    }
    if (exchange.method === "GET" || exchange.method === "HEAD")
      headers.set("cache-control", privateCacheControl(headers.get("cache-control")));
    return headerObject(headers, this.gatewayHeaders());
  }

  onResponseBody(bytes: Buffer): boolean {
    const { exchange } = this;
    exchange.firstByte ??= exchange.elapsed;
    exchange.written += bytes.length;
    if (this.createsObjects) this.objects?.onResponseData(bytes);
    this.usage?.push(bytes);
    if (!this.streamed) return false;
    // Updated with every piece, because the client may leave before the end.
    this.streamed.push(bytes);
    exchange.usage = this.streamed.usage;
    exchange.usageError = this.streamed.fault;
    return this.streamed.hasTerminated;
  }

  onErrorBody(body: Buffer): IncomingHttpHeaders {
    const { attempt, exchange, path } = this;
    recordErrorMessage(attempt, exchange, body, this.redactor);
    const { status = 0 } = attempt;
    const refusedPart = path.protocols
      .map((protocol) => protocol.refuses?.(status, body))
      .find((part) => part !== undefined);
    const alreadyNotified = this.refused;
    if (refusedPart) this.refused = refusedPart === "credential";
    this.confirmedByBody = refusedPart === "credential";
    if (alreadyNotified || !this.refused) return {};
    addCredentialNotice(attempt, exchange, true);
    return headerObject(new HeaderList(), this.gatewayHeaders());
  }

  onResponseEnd(): void {
    const { exchange, usage } = this;
    if (usage) this.takeUsage(usage);
    if (exchange.status >= 400) exchange.outcome = "upstream_error";
    this.settle();
  }

  /**
   * Sets the usage. An object that is fetched, changed or cancelled, like a batch, has its usage each time: it counts once, when it
   * is finished; a stored answer under the name that it has on paths of its protocol.
   */
  private takeUsage(usage: JsonUsage): void {
    const { exchange } = this;
    const found = usage.end();
    exchange.usageError = usage.fault;
    const { id, unfinished, foreground, late } = usage;
    if (exchange.method !== "POST" || (id !== undefined && exchange.path.split("/").includes(id))) {
      if (id === undefined || unfinished || foreground || !((found?.in.total ?? 0) + (found?.out.total ?? 0) > 0))
        return;
      exchange.usageName = late ?? `passed ${id}`;
    }
    exchange.usage = found;
  }
}

/**
 * Rewrites a provider's cache-control so that only the client itself may cache. Shared caches do not know most places in which a
 * key is sent, and would take the responses for all keys as one.
 */
export function privateCacheControl(caching = ""): string {
  const rules = caching.split(",").map((rule) => rule.trim());
  const kept = rules.filter((rule) => rule !== "" && !/^(?:public|private|s-maxage|proxy-revalidate)\b/i.test(rule));
  return ["private", ...kept].join(", ");
}
