import { BufferMemory } from "./core/buffer-memory.ts";
import type { Provider } from "./core/marketplace.ts";
import type { Protocol } from "./core/protocol.ts";
import { Agents, readingProxies } from "./upstream/agents.ts";
import { Demo } from "./upstream/demo.ts";
import { Pools } from "./upstream/http1/pools.ts";

/** The enabled providers, by name. */
export type Providers = ReadonlyMap<string, Provider>;

/**
 * Resources passed from one generation to the next: connections to providers, the built-in provider's server, and the memory
 * for messages, bodies, their temporary files and answers. Connections and servers that no living generation uses are closed.
 */
export class UpstreamResources {
  readonly agents = new Agents(process.env);
  readonly messages = new BufferMemory();
  readonly bodies = new BufferMemory();
  readonly spools = new BufferMemory();
  readonly answers = new BufferMemory();
  private readonly demos = new Map<string, { demo: Demo; address: URL }>();
  private readonly providersInUse = new Set<Providers>();

  /** @throws FileError for an invalid address in a proxy variable */
  constructor(
    private readonly protocols: readonly Protocol[],
    readonly pools = readingProxies(() => new Pools()),
  ) {}

  /** Returns the address of the server behind `demo:`, which is started on first use. */
  async demo(provider: string): Promise<URL> {
    const known = this.demos.get(provider);
    if (known) return known.address;
    const demo = new Demo(this.protocols);
    const address = await demo.start();
    for (const connections of [this.pools, this.agents]) connections.exempt(address);
    this.demos.set(provider, { demo, address });
    return address;
  }

  /** Registers the providers of a generation. */
  hold(providers: Providers): void {
    this.providersInUse.add(providers);
  }

  /** Unregisters the providers of a generation, and closes what no other one uses. */
  async release(providers: Providers): Promise<void> {
    this.providersInUse.delete(providers);
    const used = [...this.providersInUse].flatMap((each) => [...each.values()]);
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

/** Returns the connection accounts of a provider: its own name, used without a credential, and one for each credential. */
const accountsOf = ({ name, credentials }: Provider): string[] => [name, ...credentials.map(({ account }) => account)];
