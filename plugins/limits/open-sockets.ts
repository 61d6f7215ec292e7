import { type DoneExchange, GatewayError, type RouteExchange } from "model-gateway";
import type { KeyRecord, Keys } from "model-gateway/store";

/** Checks open WebSockets again when their keys change: one may be open for hours after it was admitted. */
export class OpenSockets {
  private readonly open = new Set<RouteExchange>();
  private readonly unsubscribe: () => void;

  /** @param check throws what a new WebSocket would be refused with */
  constructor(
    private readonly keys: Keys,
    private readonly check: (exchange: RouteExchange) => void,
  ) {
    this.unsubscribe = keys.watch((change) => {
      // Those of a revoked or disabled key, or of a disabled group, are ended by the engine.
      if ("id" in change && change.kind === "changed") void this.onKeyChange(change.id);
    });
  }

  add(exchange: RouteExchange): void {
    this.open.add(exchange);
  }

  delete(exchange: DoneExchange): void {
    (this.open as Set<object>).delete(exchange);
  }

  close(): void {
    this.unsubscribe();
  }

  private async onKeyChange(id: string): Promise<void> {
    const own = [...this.open].filter(({ caller }) => caller?.id === id);
    if (own.length === 0) return;
    const record: KeyRecord | undefined = await this.keys.show(id).catch(() => undefined);
    if (record) for (const exchange of own) this.recheck(exchange, record);
  }

  private recheck(exchange: RouteExchange, record: KeyRecord): void {
    try {
      // Its messages, too, are checked against the key as it is now.
      exchange.caller = this.keys.callerOf(record);
      this.check(exchange);
    } catch (thrown) {
      exchange.interrupt(thrown instanceof GatewayError ? thrown : undefined);
    }
  }
}
