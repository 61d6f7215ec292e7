import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Gateway } from "../../src/gateway.ts";
import { SqliteDatabase } from "../../src/store/sqlite/database.ts";
import { MemoryLog } from "../../src/testing/memory-log.ts";
import { asking, KEY } from "./key.ts";
import type { Teardown } from "./listen.ts";
import { httpUpstream } from "./upstream.ts";

export { asking, KEY, MemoryLog };

export interface Running {
  /** Address without a trailing slash. */
  url: string;
  port: number;
  gateway: Gateway;
  log: MemoryLog;
  /** The folder of its gateway.yaml. */
  folder: string;
}

let emptyStore: Buffer | undefined;

/** Returns a new store's file: cached, as creating it takes a tenth of a test gateway's CPU. */
function storeFile(): Buffer {
  if (emptyStore) return emptyStore;
  const folder = mkdtempSync(join(tmpdir(), "gateway-store-"));
  try {
    new SqliteDatabase(join(folder, "gateway.db")).close();
    emptyStore = readFileSync(join(folder, "gateway.db"));
    return emptyStore;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Starts a gateway on a free port in this process, stopped with the test. `yaml` holds providers, models and whatever the test
 * needs; listener, store and key are added unless it has its own.
 */
export async function startGateway(
  t: Teardown,
  yaml: string,
  files: Record<string, string> = {},
  env: Record<string, string> = {},
): Promise<Running> {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"));
  const file = join(folder, "gateway.yaml");
  const own = [
    /^listen:/m.test(yaml) ? "" : "listen: 127.0.0.1:0\n",
    /^store:/m.test(yaml) ? "" : "store: { ledger: 'sqlite:./gateway.db' }\n",
    // Tests share a process, and a busy machine, with the gateway.
    /^overload:/m.test(yaml) ? "" : "overload: { delay: off }\n",
    /^keys:/m.test(yaml) ? "" : `keys: { test: { key: ${KEY} } }\n`,
  ];
  writeFileSync(file, own.join("") + yaml);
  if (!/^store:/m.test(yaml)) writeFileSync(join(folder, "gateway.db"), storeFile(), { mode: 0o600 });
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const log = new MemoryLog();
  try {
    const gateway = await Gateway.start({ file, env, log });
    t.teardown(async () => {
      await gateway.stop({ drain: 0 });
      rmSync(folder, { recursive: true, force: true });
    });
    const { port } = gateway.address;
    return { url: `http://127.0.0.1:${port}`, port, gateway, log, folder };
  } catch (thrown) {
    rmSync(folder, { recursive: true, force: true });
    throw thrown;
  }
}

/**
 * Starts an upstream, and a gateway whose model `m` is the upstream's model `x`; both end with the test.
 * @param speaks the upstream's protocols
 * @param path of the provider's URL
 */
export async function startGatewayTo(
  t: Teardown,
  speaks: string,
  answer?: Parameters<typeof httpUpstream>[0],
  path = "/v1",
): Promise<Running & { upstream: Awaited<ReturnType<typeof httpUpstream>> }> {
  const upstream = await httpUpstream(answer);
  t.teardown(() => upstream.close());
  const provider = `{ url: "${upstream.origin.origin}${path}", speaks: [${speaks}] }`;
  const running = await startGateway(t, `providers: { up: ${provider} }\nmodels: { m: { targets: [up:x] } }\n`);
  return { ...running, upstream };
}
