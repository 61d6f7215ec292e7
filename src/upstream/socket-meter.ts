import type { IncomingHttpHeaders } from "node:http";
import type { Attempt } from "../core/attempt.ts";
import type { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { JsonUsage } from "../core/json-usage.ts";
import type { SocketProtocol } from "../core/protocol.ts";
import type { Redactor } from "../core/redactor.ts";
import type { SocketMessageChecker } from "../objects/socket-message-checker.ts";
import { HeaderList, headerObject } from "../wire/headers.ts";
import { completeHeaders } from "./allow-list.ts";
import { callerIdOf } from "./health.ts";
import { recordErrorMessage, recordHead } from "./provider-message.ts";
import type { SocketObserver } from "./websocket.ts";

/** What a meter needs of the client's side. */
interface SocketClient {
  /** Returns header lines that every response of the gateway has: name, value, … */
  gatewayHeaders(): readonly string[];
  /** Responds to the handshake with an error, synchronously. */
  refuse(error: GatewayError): void;
}

/** Records a WebSocket exchange: status, bytes of both directions, and the usage that messages report. */
export class SocketMeter implements SocketObserver {
  readonly caller: string;
  readonly onTextMessage: SocketObserver["onTextMessage"];
  readonly checkMessage: SocketObserver["checkMessage"];

  /**
   * @param filterHeaders filters the headers of the provider's response for the client
   * @param protocol of the protocol in use; undefined: messages are not parsed
   * @param messageChecker checks the client's messages; undefined: they are not checked
   */
  constructor(
    private readonly exchange: Exchange,
    private readonly attempt: Attempt,
    private readonly filterHeaders: (received: HeaderList) => HeaderList,
    private readonly protocol: SocketProtocol | undefined,
    private readonly client: SocketClient,
    readonly redactor: Redactor,
    messageChecker?: SocketMessageChecker,
  ) {
    this.checkMessage = messageChecker && ((message) => messageChecker.findError(message));
    this.caller = callerIdOf(exchange);
    exchange.received = 0;
    const readUsage = protocol?.usageReader();
    this.onTextMessage =
      readUsage &&
      ((message) => {
        try {
          const previous = exchange.usage;
          exchange.usage = readUsage(message, previous);
          if (exchange.usage !== previous) exchange.onUsage?.(exchange);
        } catch (thrown) {
          exchange.usageError ??= JsonUsage.loggableError(thrown);
        }
      });
  }

  onResponseHead(status: number, rawHeaders: readonly string[]): IncomingHttpHeaders {
    const { exchange, attempt } = this;
    const received = new HeaderList([...rawHeaders]);
    const headers = this.redactor.headers(this.filterHeaders(received));
    recordHead(exchange, attempt, status, received, this.redactor);
    completeHeaders(status, headers);
    exchange.streaming = status === 101;
    if (status === 101) headers.deleteWhere((name) => name.startsWith("content-"));
    return headerObject(headers, this.client.gatewayHeaders());
  }

  onClientBytes(bytes: Buffer): void {
    this.exchange.received = (this.exchange.received ?? 0) + bytes.length;
  }

  onProviderBytes(bytes: Buffer): void {
    this.exchange.firstByte ??= this.exchange.elapsed;
    this.exchange.written += bytes.length;
  }

  onErrorBody(body: Buffer): void {
    recordErrorMessage(this.attempt, this.exchange, body, this.redactor);
  }

  onInterrupt(listener: (error: GatewayError, message: string | undefined) => void): () => void {
    const { exchange, protocol } = this;
    return exchange.onInterrupt(() => {
      const { interruption, id } = exchange;
      if (interruption) listener(interruption, protocol?.error(interruption, id));
    });
  }

  interrupt(error: GatewayError): void {
    this.exchange.interrupt(error);
  }

  refuse(error: GatewayError): void {
    this.attempt.error = error;
    if (error.code === "upstream_unreachable") this.attempt.sent = false;
    this.client.refuse(error);
  }
}
