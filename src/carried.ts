import type { Provider } from "./core/marketplace.ts";
import type { Protocol } from "./core/protocol.ts";
import { Agents } from "./upstream/agents.ts";
import { Demo } from "./upstream/demo.ts";
import { Pools } from "./upstream/http1/pools.ts";

/** Providers that are on, by name. */
export type Providers = ReadonlyMap<string, Provider>;

/**
 * What one generation leaves to the next: connections to providers, and the built-in provider's server. What no living
 * generation has a use for is closed.
 */
export class Carried {
  readonly agents = new Agents(process.env);
  private readonly demos = new Map<string, { demo: Demo; address: URL }>();
  private readonly living = new Set<Providers>();

  /** @throws Error for a proxy variable that is no address. */
  constructor(
    private readonly protocols: readonly Protocol[],
    readonly pools = new Pools(),
  ) {}

  /** The address of the server behind `demo:`, which runs from the first time that it is asked for. */
  async demo(provider: string): Promise<URL> {
    const known = this.demos.get(provider);
    if (known) return known.address;
    const demo = new Demo(this.protocols);
    const address = await demo.start();
    this.pools.exempt(address);
    this.demos.set(provider, { demo, address });
    return address;
  }

  /** A generation uses these. */
  hold(providers: Providers): void {
    this.living.add(providers);
  }

  /** It does not any more: what nobody else uses is closed. */
  async release(providers: Providers): Promise<void> {
    this.living.delete(providers);
    const used = [...this.living].flatMap((each) => [...each.values()]);
    const accounts = used.flatMap((provider) => accountsOf(provider).map((account) => ({ provider, account })));
    const closed = this.pools.retain(
      new Set(accounts.map(({ provider, account }) => `${provider.url.origin} ${account}`)),
    );
    this.agents.retain(new Set(accounts.map(({ account }) => account)));
    for (const [name, { demo, address }] of this.demos) {
      if (used.some(({ url }) => url.origin === address.origin)) continue;
      this.demos.delete(name);
      await demo.close();
    }
    await closed;
  }
}

/** As requests name them: by the credential, or by the provider that has none. */
const accountsOf = ({ name, credentials }: Provider): string[] => [name, ...credentials.map(({ account }) => account)];
