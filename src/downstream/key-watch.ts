import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import type { KeyChange, Keys } from "../store/keys.ts";

/** Milliseconds between two looks for keys that have expired. */
const LOOK = 1000;

/** What is told of the exchanges that run. */
interface RunningExchanges {
  /** Breaks those off for which there is a reason. */
  end(why: (exchange: Exchange) => GatewayError | undefined): void;
}

/** Ends what runs for a key that is revoked, is disabled or expires: streams and WebSockets may last for hours. */
export class KeyWatch {
  private readonly unsubscribe: () => void;
  private readonly timer: NodeJS.Timeout;

  constructor(
    keys: Keys,
    private readonly running: RunningExchanges,
  ) {
    this.unsubscribe = keys.watch((change) => this.changed(change));
    this.timer = setInterval(() => this.expire(), LOOK).unref();
  }

  close(): void {
    this.unsubscribe();
    clearInterval(this.timer);
  }

  private changed({ id, kind }: KeyChange): void {
    if (kind === "changed") return;
    const code = kind === "disabled" ? "disabled_api_key" : "revoked_api_key";
    this.running.end(({ caller }) => (caller?.id === id ? new GatewayError(code) : undefined));
  }

  private expire(): void {
    const now = Date.now();
    this.running.end(({ caller }) =>
      caller?.expires !== undefined && caller.expires <= now ? new GatewayError("revoked_api_key") : undefined,
    );
  }
}
