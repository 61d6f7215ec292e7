import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { KeyChange, Keys } from "../store/keys.ts";

/** Milliseconds between two checks for expired keys. */
const CHECK_INTERVAL = 1000;

/** The exchanges that are running. */
interface RunningExchanges {
  /** Breaks off those for which `why` returns an error. */
  interruptWhere(why: (exchange: Exchange) => GatewayError | undefined): void;
}

/** Ends running exchanges whose key is revoked, disabled or expires: streams and WebSockets may last for hours. */
export class KeyWatch {
  private readonly unsubscribe: () => void;
  private readonly timer: NodeJS.Timeout;

  constructor(
    keys: Keys,
    private readonly running: RunningExchanges,
  ) {
    this.unsubscribe = keys.watch((change) => this.onKeyChange(change));
    this.timer = setInterval(() => this.endExpired(), CHECK_INTERVAL).unref();
  }

  close(): void {
    this.unsubscribe();
    clearInterval(this.timer);
  }

  private onKeyChange({ id, kind }: KeyChange): void {
    if (kind === "changed") return;
    const code = kind === "disabled" ? "disabled_api_key" : "revoked_api_key";
    this.running.interruptWhere(({ caller }) => (caller?.id === id ? new GatewayError(code) : undefined));
  }

  private endExpired(): void {
    const now = Date.now();
    this.running.interruptWhere(({ caller }) =>
      caller?.expires !== undefined && caller.expires <= now ? new GatewayError("revoked_api_key") : undefined,
    );
  }
}
