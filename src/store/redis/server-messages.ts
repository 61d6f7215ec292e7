import { RedisRefusal } from "./server.ts";

/** Tells the operator, once each, that the server is lost, refuses, is back, or is used by another version. */
export class ServerMessages {
  /** The last refusal that was reported. */
  private refusal: string | undefined;
  private isMixed = false;

  /** @param address the server's, without a password */
  constructor(
    private readonly address: string,
    private readonly warn: (message: string) => void,
    private readonly info: (message: string) => void,
  ) {}

  /** @param instances number of processes that keep to a part each */
  away({ message }: Error, instances: number): void {
    const until = instances === 1 ? "counts alone" : `keeps to one part in ${instances} of what was left`;
    this.warn(
      `limits: Redis at ${this.address} (store: limits) is unavailable (${message}): this process ${until}, until it is back`,
    );
  }

  /** Reports why a reachable server refuses commands, as the first warning was only that it was lost. Retries do not help. */
  refused(thrown: unknown): void {
    if (!(thrown instanceof RedisRefusal) || this.refusal === thrown.message) return;
    this.refusal = thrown.message;
    this.warn(`limits: Redis (store: limits) is asked again, and refuses: ${thrown.message}`);
  }

  /** @param wasAway whether the loss was reported */
  joined(wasAway: boolean): void {
    this.refusal = undefined;
    if (wasAway) this.info(`limits: Redis at ${this.address} (store: limits) is back, and all count together again`);
  }

  /** Reports when gateways of another version, which count apart, begin to use the server, and when they have left it. */
  versions(mixed: boolean): void {
    if (mixed === this.isMixed) return;
    this.isMixed = mixed;
    const others = `limits: gateways of another version of model-gateway use Redis at ${this.address} (store: limits)`;
    if (mixed)
      this.warn(`${others}, and count apart: until they are stopped, budgets may be exceeded by what they spend`);
    else this.info(`${others} no more: what they have spent is loaded from the ledger`);
  }
}
