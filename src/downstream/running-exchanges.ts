import { GatewayError, thrownStack } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Generation } from "../generation.ts";
import type { Reply } from "./reply.ts";
import { UnorderedList } from "./unordered-list.ts";

/** Milliseconds for the last bytes of responses to reach their clients, and for clients to close. */
export const LAST_BYTES = 1000;

/** An exchange that has not ended. */
export interface RunningExchange {
  readonly exchange: Exchange;
  readonly generation: Generation;
  /** Sends its response; undefined for a WebSocket. */
  readonly reply: Reply | undefined;
}

/** The exchanges that have not ended, each with the generation it began with. */
export class RunningExchanges {
  /** Called for each exchange that has ended and is recorded. */
  onEnded: (exchange: Exchange) => void = () => {};
  /** Called for each exchange that has ended, when it is no longer one of them. */
  afterEnd: () => void = () => {};
  private readonly running = new UnorderedList<RunningExchange>();

  get size(): number {
    return this.running.size;
  }

  items(): RunningExchange[] {
    return this.running.items();
  }

  /** Whether a client waits for the beginning of its response. */
  get areAwaited(): boolean {
    return this.running.some(({ reply }) => reply !== undefined && !reply.response.headersSent);
  }

  /** The generations that they began with. */
  get generations(): Generation[] {
    return this.items().map(({ generation }) => generation);
  }

  /**
   * Keeps an exchange until it has ended.
   * @param client closed if the exchange fails unexpectedly, which must not end the process
   */
  add(running: RunningExchange, client: { destroy(): unknown }, life: Promise<void>): void {
    const entry = this.running.add(running);
    running.generation.hold();
    life.then(
      () => this.end(entry, client),
      (thrown: unknown) => {
        reportFailure(running, client, thrown);
        this.end(entry, client);
      },
    );
  }

  private end(entry: ReturnType<UnorderedList<RunningExchange>["add"]>, client: { destroy(): unknown }): void {
    const running = entry.item;
    this.running.remove(entry);
    running.generation.release();
    try {
      this.onEnded(running.exchange);
    } catch (thrown) {
      reportFailure(running, client, thrown);
    }
    this.afterEnd();
  }

  /**
   * Breaks off one of them.
   * @returns whether it is running
   */
  cancel(id: string): boolean {
    let found = false;
    this.interruptWhere(({ exchange }) => {
      if (exchange.id !== id) return undefined;
      found = true;
      return new GatewayError("cancelled");
    });
    return found;
  }

  /** Breaks off what still runs with a generation; clients of WebSockets are told to reconnect. */
  retire(generation: Generation): void {
    generation.proxy.drain();
    const error = () => new GatewayError("interrupted", { message: "The gateway's configuration has been replaced." });
    const runsWithIt = (running: RunningExchange) => running.generation === generation;
    this.interruptWhere((running) => (runsWithIt(running) && running.reply ? error() : undefined));
    setTimeout(() => this.interruptWhere((running) => (runsWithIt(running) ? error() : undefined)), LAST_BYTES).unref();
  }

  /**
   * Breaks off some of them; their clients get an error in their own protocol.
   * @param why returns the error; undefined: that one continues
   */
  interruptWhere(why: (running: RunningExchange) => GatewayError | undefined): void {
    for (const running of this.items()) {
      const error = why(running);
      if (error) running.exchange.interrupt(error);
    }
    // Exchanges that do not notice the interruption themselves: their client has not sent the whole request.
    setImmediate(() => {
      for (const { exchange, reply } of this.items())
        if (exchange.interruption && reply && !reply.response.headersSent) reply.refuse(exchange.interruption);
    });
  }
}

function reportFailure(
  { exchange, generation }: RunningExchange,
  client: { destroy(): unknown },
  thrown: unknown,
): void {
  const fields = { id: exchange.id, cause: thrownStack(thrown) };
  generation.log.error(fields, "a request failed, and its connection is closed");
  client.destroy();
}
