import type { Caller } from "../core/caller.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { groupAndParents } from "../core/limits.ts";
import type { KeyChange, Keys } from "../store/keys.ts";
import type { RunningExchanges } from "./running-exchanges.ts";

/** Milliseconds between two checks for expired keys. */
const CHECK_INTERVAL = 1000;

/** The secret of a running exchange whose key has changed, and until when it works: Unix milliseconds. */
interface ChangedSecret {
  readonly hash: string;
  readonly expires: number;
}

/**
 * Ends running exchanges whose key is revoked, disabled, replaced or expires, or whose group is disabled: streams and WebSockets may
 * last for hours.
 */
export class KeyWatch {
  private readonly unsubscribe: () => void;
  private readonly timer: NodeJS.Timeout;
  private readonly changed = new WeakMap<Exchange, ChangedSecret>();

  constructor(
    private readonly keys: Pick<Keys, "watch" | "secretOf">,
    private readonly running: Pick<RunningExchanges, "interruptWhere">,
  ) {
    this.unsubscribe = keys.watch((change) => this.onKeyChange(change));
    this.timer = setInterval(() => this.endExpired(), CHECK_INTERVAL).unref();
  }

  close(): void {
    this.unsubscribe();
    clearInterval(this.timer);
  }

  private onKeyChange(change: KeyChange): void {
    if ("id" in change && change.kind === "changed") {
      this.endExpired(change);
      return;
    }
    const concerns = ({ id, group = "" }: Caller) =>
      "id" in change ? id === change.id : groupAndParents(group).includes(change.group);
    const code = "id" in change && change.kind === "revoked" ? "revoked_api_key" : "disabled_api_key";
    this.running.interruptWhere(({ exchange: { caller } }) =>
      caller && concerns(caller) ? new GatewayError(code) : undefined,
    );
  }

  /** @param change of a key, whose running exchanges then end when their secret does now */
  private endExpired(change?: { readonly id: string; readonly secrets: ReadonlyMap<string, number> }): void {
    const now = Date.now();
    this.running.interruptWhere(({ exchange }) => {
      const { caller } = exchange;
      if (!caller) return undefined;
      if (caller.id === change?.id) this.applyChange(exchange, caller, change.secrets);
      const { expires = Number.POSITIVE_INFINITY } = this.changed.get(exchange) ?? caller;
      return expires <= now ? new GatewayError("revoked_api_key") : undefined;
    });
  }

  /** A secret that is not in the list any more was replaced. */
  private applyChange(exchange: Exchange, caller: Caller, secrets: ReadonlyMap<string, number>): void {
    // Plugins may have set another caller since, which has the newest secret.
    const hash = this.changed.get(exchange)?.hash ?? this.keys.secretOf(caller);
    if (hash !== undefined) this.changed.set(exchange, { hash, expires: secrets.get(hash) ?? 0 });
  }
}
