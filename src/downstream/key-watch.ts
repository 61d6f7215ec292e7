import type { Caller } from "../core/caller.ts";
import { GatewayError } from "../core/errors.ts";
import { groupAndParents } from "../core/limits.ts";
import type { KeyChange, Keys } from "../store/keys.ts";
import type { RunningExchanges } from "./running-exchanges.ts";

/** Milliseconds between two checks for expired keys. */
const CHECK_INTERVAL = 1000;

/**
 * Ends running exchanges whose key is revoked, disabled or expires, or whose group is disabled: streams and WebSockets may last for
 * hours.
 */
export class KeyWatch {
  private readonly unsubscribe: () => void;
  private readonly timer: NodeJS.Timeout;

  constructor(
    keys: Keys,
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
    if ("id" in change && change.kind === "changed") return;
    const concerns = ({ id, group = "" }: Caller) =>
      "id" in change ? id === change.id : groupAndParents(group).includes(change.group);
    const code = "id" in change && change.kind === "revoked" ? "revoked_api_key" : "disabled_api_key";
    this.running.interruptWhere(({ exchange: { caller } }) =>
      caller && concerns(caller) ? new GatewayError(code) : undefined,
    );
  }

  private endExpired(): void {
    const now = Date.now();
    this.running.interruptWhere(({ exchange: { caller } }) =>
      caller?.expires !== undefined && caller.expires <= now ? new GatewayError("revoked_api_key") : undefined,
    );
  }
}
