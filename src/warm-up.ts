import { lstatSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { flushCompileCache } from "node:module";
import { createConnection, type Socket } from "node:net";
import { devNull, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { JsonLog, type Log } from "./core/log.ts";
import { startFullCollection } from "./full-collection.ts";
import { Gateway } from "./gateway.ts";
import { type LoadedConfig, loadWithExtensions } from "./loaded-config.ts";
import { promClient } from "./metrics/families.ts";
import { Pools } from "./upstream/http1/pools.ts";
import { isWhole, WarmUpProvider } from "./warm-up-provider.ts";

/** The configuration of the warm-up: a gateway in front of recorded answers, and its requests. */
const CONFIG_FOLDER = new URL("../plugins/warm-up/", import.meta.url);
/** The key in that gateway's file. */
const WARM_UP_KEY = "rehearsal-0123456789abcdef";
/** Number of gateways: code that has seen only one is compiled for that one, and V8 discards it when the next comes. */
const GATEWAYS = 2;
/** Concurrent clients, before the first real request. */
const CLIENTS = 8;
/** Requests per connection: closing one changes V8's type feedback. */
const REQUESTS_PER_CONNECTION = 10;
/** Milliseconds for what comes after its time: its last responses, and the compilers, which slow down the rest of the start. */
const END_TIME = 80;
/** Requests after which there is hardly anything left to compile. */
const MAX_REQUESTS = 10_000;
/** Requests after which the heap is collected: V8 would let it grow to three times its live objects, and it shrinks no more. */
const REQUESTS_PER_COLLECTION = 1000;
/** Milliseconds after which the warm-up of a busy process is given up. */
const MAX_WARM_UP_TIME = 60_000;
/** The beginning of the name of a warm-up's folder. */
const FOLDER_PREFIX = "gateway-warm-up-";
/** Milliseconds after which a warm-up's folder was left by a process that was killed. */
const ABANDONED_AFTER = 60 * 60_000;
/** Milliseconds without a new real request before it continues. */
const IDLE_TIME = 100;
/**
 * How often V8 calls a function before it compiles it with Maglev, and since it last saw a new type there; and whether it notes
 * types only from the eighth call on. Fewer calls suffice here, because the same few requests come again and again.
 */
const WARM_UP_FLAGS = [
  "--invocation-count-for-maglev=100",
  "--minimum-invocations-after-ic-update=100",
  "--no-lazy-feedback-allocation",
];
/** V8's own values. */
const USUAL_FLAGS = [
  "--invocation-count-for-maglev=400",
  "--minimum-invocations-after-ic-update=500",
  "--lazy-feedback-allocation",
];

/** What a process serves beside its warm-up. */
interface Serving {
  /** Number of real requests so far; infinite in a process that stops. */
  readonly begun: number;
  /** Number of those that have not ended. */
  readonly running: number;
}

interface WarmUpRequest {
  /** How often, relative to the others. */
  times: number;
  path: string;
  /** Header lines of the client. */
  headers?: readonly string[];
  /** Absent: the request is a GET. */
  body?: unknown;
}

/**
 * Makes V8 compile the code of requests before the first one arrives: separate gateways in this process, with the built-in
 * plugins in front of recorded answers, a discarded log and a temporary ledger, serve requests that this process sends.
 */
export class WarmUp {
  private readonly gateways: Gateway[] = [];
  private provider: WarmUpProvider | undefined;
  private readonly sockets = new Set<Socket>();
  private readonly folder = mkdtempSync(join(tmpdir(), FOLDER_PREFIX));
  private readonly log = new JsonLog(openSync(devNull, "w"));
  private count = 0;
  private closed: Promise<void> | undefined;

  private constructor(private readonly requests: readonly Buffer[]) {}

  /**
   * Runs the warm-up at full load for some time; call `continue` or `close` afterwards. Logs a warning on failure.
   * @param time milliseconds; 0: no warm-up
   * @param configFolder the folder of its configuration
   */
  static async run(time: number, log: Log, configFolder = CONFIG_FOLDER): Promise<WarmUp | undefined> {
    if (time === 0) return undefined;
    let end = performance.now() + time;
    let warmUp: WarmUp | undefined;
    try {
      removeAbandonedFolders();
      warmUp = new WarmUp(serializedRequests(configFolder));
      const loaded = await warmUp.load(configFolder);
      const opening: number[] = [];
      while (opening.length < GATEWAYS) opening.push(await warmUp.openGateway(loaded));
      // The first one loads what a start without a warm-up would load as well: that is not counted.
      end += Math.max(0, (opening[0] ?? 0) - (opening[1] ?? 0) - END_TIME);
      // The first scrape would wait for it, and requests with it.
      promClient();
      for (const flag of WARM_UP_FLAGS) setFlagsFromString(flag);
      await warmUp.runClients(end);
      // For the next start; done before the first start is ready, so that no request pays for it.
      flushCompileCache();
      return warmUp;
    } catch (thrown) {
      log.warn({ cause: String(thrown) }, "the gateway could not be warmed up: its first requests are slow");
      await warmUp?.close();
      return undefined;
    }
  }

  /**
   * Continues, one request at a time, while no real ones arrive or run; closes itself after enough requests, real ones included, as its
   * gateways take memory. Never throws: an error ends it.
   * @param serving what the process serves
   */
  async continue(serving: Serving): Promise<void> {
    const end = performance.now() + MAX_WARM_UP_TIME;
    const shouldContinue = () => !this.closed && this.count + serving.begun < MAX_REQUESTS && performance.now() < end;
    let before = serving.begun;
    // Chunks of a stream would wait for it.
    const idle = () => serving.begun === before && serving.running === 0;
    let collectAt = this.count + REQUESTS_PER_COLLECTION;
    try {
      while (shouldContinue()) {
        before = serving.begun;
        await after(IDLE_TIME);
        if (!idle()) continue;
        if (this.count >= collectAt) {
          startFullCollection();
          collectAt = this.count + REQUESTS_PER_COLLECTION;
        }
        await this.runClient(() => shouldContinue() && idle() && this.count < collectAt);
      }
    } catch {
      // The gateway is ready without it.
    }
    const stops = this.closed !== undefined;
    await this.close();
    // The gateways too; with requests V8 does it in good time.
    if (!stops && idle()) startFullCollection();
  }

  close(): Promise<void> {
    this.closed ??= this.end();
    return this.closed;
  }

  /** Number of requests sent so far. */
  get sent(): number {
    return this.count;
  }

  /** Starts the provider and reads the configuration. */
  private async load(configFolder: URL): Promise<LoadedConfig> {
    this.provider = await WarmUpProvider.start(new URL("answers.json", configFolder));
    const file = fileURLToPath(new URL("gateway.yaml", configFolder));
    return loadWithExtensions({ file, folder: this.folder, env: { WARM_UP_PROVIDER: this.provider.url } });
  }

  /** Returns how many milliseconds it took. */
  private async openGateway(loaded: LoadedConfig): Promise<number> {
    const before = performance.now();
    // No proxy of the environment: the provider is in this process.
    const gateway = await Gateway.open(loaded, this.log, { pools: new Pools({ environment: {} }) });
    this.gateways.push(gateway);
    await gateway.listen(gateway.config.listen);
    return performance.now() - before;
  }

  private async runClients(end: number): Promise<void> {
    await Promise.all(Array.from({ length: CLIENTS }, () => this.runClient(() => performance.now() < end)));
  }

  private async end(): Promise<void> {
    for (const flag of USUAL_FLAGS) setFlagsFromString(flag);
    for (const socket of this.sockets) socket.destroy();
    await Promise.all(this.gateways.map((gateway) => gateway.stop({ linger: 0, drain: 0 })));
    this.provider?.close();
    await this.log.close();
    await rm(this.folder, { recursive: true, force: true });
  }

  /**
   * Runs one client, which sends a few requests on each of its connections: at least one, and more while `shouldContinue`
   * returns true.
   */
  private async runClient(goOn: () => boolean): Promise<void> {
    do await this.runConnection(goOn);
    while (goOn());
  }

  private runConnection(goOn: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { port } = (this.gateways[this.sockets.size % GATEWAYS] as Gateway).address;
    const socket = createConnection(port, "127.0.0.1").setNoDelay(true);
    this.sockets.add(socket);
    let answer = "";
    let sent = 0;
    const next = () => {
      if (sent === 0 || (sent < REQUESTS_PER_CONNECTION && goOn())) {
        sent++;
        socket.write(this.requests[this.count++ % this.requests.length] as Buffer);
      } else socket.destroy();
    };
    socket.on("connect", next);
    socket.on("data", (bytes) => {
      answer += bytes.toString("latin1");
      if (!isWhole(answer)) return;
      if (!answer.startsWith("HTTP/1.1 200 ")) socket.destroy(new Error(`The warm-up got ${answer.slice(0, 500)}`));
      else {
        answer = "";
        next();
      }
    });
    socket.on("error", reject);
    socket.on("close", () => {
      this.sockets.delete(socket);
      resolve();
    });
    return promise;
  }
}

/**
 * Removes folders that this user's killed processes left: nobody else removes them where temporary files are on a disk. Never
 * throws.
 */
function removeAbandonedFolders(): void {
  const before = Date.now() - ABANDONED_AFTER;
  try {
    for (const name of readdirSync(tmpdir())) {
      if (!name.startsWith(FOLDER_PREFIX)) continue;
      const path = join(tmpdir(), name);
      const { uid, mtimeMs } = lstatSync(path, { throwIfNoEntry: false }) ?? {};
      // Not of others, who could replace files in it by links meanwhile.
      if (uid === process.getuid?.() && mtimeMs !== undefined && mtimeMs < before)
        rmSync(path, { recursive: true, force: true });
    }
  } catch {
    // It can be written, but not listed, or another process removes the same.
  }
}

/** Returns the serialized requests, each repeated `times` times. */
function serializedRequests(configFolder: URL): Buffer[] {
  const all = JSON.parse(readFileSync(new URL("requests.json", configFolder), "utf8")) as WarmUpRequest[];
  return all.flatMap(({ times, path, headers = [], body }) => {
    const text =
      body === undefined
        ? ""
        : JSON.stringify(body).replaceAll("TEXT", "The quick brown fox jumps over the lazy dog. ".repeat(8));
    const head = [
      `${body === undefined ? "GET" : "POST"} ${path} HTTP/1.1`,
      "host: 127.0.0.1",
      `authorization: Bearer ${WARM_UP_KEY}`,
      "accept: application/json",
      ...headers,
      ...(body === undefined ? [] : ["content-type: application/json", `content-length: ${Buffer.byteLength(text)}`]),
    ];
    return Array<Buffer>(times).fill(Buffer.from(`${head.join("\r\n")}\r\n\r\n${text}`));
  });
}
