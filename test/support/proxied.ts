import type { Test } from "tap";
import { Pools, type PoolsOptions } from "../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import { rawUpstream, type Script } from "./upstream.ts";

/** Closes idle connections at once, and those in use when their requests have ended. */
export const closePools = (pools: Pools): Promise<void> => pools.retain(new Set());

/** Creates a raw upstream and an UpstreamProxy to it, closed with the test. */
export async function proxied(t: Test, script: Script, options: PoolsOptions = {}) {
  const upstream = await rawUpstream(script);
  const pools = new Pools({ environment: {}, ...options });
  const proxy = new UpstreamProxy(pools);
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  return { upstream, pools, proxy };
}
