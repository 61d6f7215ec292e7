import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { flushCompileCache } from "node:module";
import { createConnection, type Socket } from "node:net";
import { devNull, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as after } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { JsonLog, type Log } from "./core/log.ts";
import { Gateway } from "./gateway.ts";

/** What is rehearsed: a gateway in front of the built-in provider, and the requests it gets. */
const PLACE = new URL("../plugins/warm-up/", import.meta.url);
/** The key in that gateway's file. */
const KEY = "rehearsal-0123456789abcdef";
/** Code that has met one gateway only is compiled for that one: V8 throws it away when the next comes. */
const GATEWAYS = 2;
/** Clients at a time, before the first real request. */
const CLIENTS = 8;
/** Requests of a connection: what V8 knows of one changes when it is closed. */
const CONNECTION = 10;
/** Requests after which there is hardly anything left to compile. */
const ENOUGH = 5000;
/** Milliseconds after which a process that had other things to do is left alone. */
const LONGEST = 60_000;
/** Milliseconds without a real request before it goes on. */
const IDLE = 1000;

interface Rehearsed {
  /** How often, beside the others. */
  times: number;
  path: string;
  /** Absent: it is a GET. */
  body?: unknown;
}

/**
 * Has V8 compile what requests run through before the first one comes: gateways of their own in this process, with the
 * built-in plugins in front of the built-in provider, a log that nobody reads and a ledger that is thrown away, answer requests
 * that this process sends.
 */
export class WarmUp {
  private readonly gateways: Gateway[] = [];
  private readonly sockets = new Set<Socket>();
  private readonly folder = mkdtempSync(join(tmpdir(), "gateway-warm-up-"));
  private readonly log = new JsonLog(openSync(devNull, "w"));
  private count = 0;
  private closed: Promise<void> | undefined;

  private constructor(private readonly requests: readonly Buffer[]) {}

  /**
   * Rehearses for so long with all there is. To be continued, or closed. Where it cannot, it warns.
   * @param time milliseconds; 0: nothing is rehearsed
   * @param place the folder of what is rehearsed
   */
  static async begin(time: number, log: Log, place = PLACE): Promise<WarmUp | undefined> {
    if (time === 0) return undefined;
    const end = performance.now() + time;
    let warmUp: WarmUp | undefined;
    try {
      warmUp = new WarmUp(rehearsed(place));
      await warmUp.open(place);
      await warmUp.rehearse(end);
      // For the next start; the first one pays for it before it is ready, instead of a request afterwards.
      flushCompileCache();
      return warmUp;
    } catch (thrown) {
      log.warn({ cause: String(thrown) }, "the gateway could not be warmed up: its first requests are slow");
      await warmUp?.close();
      return undefined;
    }
  }

  /**
   * Goes on, one request at a time, while no real ones come; closes itself when that is enough, real ones counted, as its
   * gateways take memory. Never throws: what goes wrong ends it.
   * @param begun how many real requests there were; infinite in a process that stops
   */
  async continue(begun: () => number): Promise<void> {
    const end = performance.now() + LONGEST;
    const goOn = () => !this.closed && this.count + begun() < ENOUGH && performance.now() < end;
    try {
      while (goOn()) {
        const before = begun();
        await after(IDLE);
        const idle = () => begun() === before;
        if (idle()) await this.client(() => goOn() && idle());
      }
    } catch {
      // The gateway is ready without.
    }
    await this.close();
  }

  close(): Promise<void> {
    this.closed ??= this.end();
    return this.closed;
  }

  /** How many requests were sent so far. */
  get sent(): number {
    return this.count;
  }

  private async open(place: URL): Promise<void> {
    const file = fileURLToPath(new URL("gateway.yaml", place));
    const { folder, log } = this;
    for (let i = 0; i < GATEWAYS; i++) this.gateways.push(await Gateway.start({ file, folder, env: {}, log }));
  }

  private async rehearse(end: number): Promise<void> {
    await Promise.all(Array.from({ length: CLIENTS }, () => this.client(() => performance.now() < end)));
  }

  private async end(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await Promise.all(this.gateways.map((gateway) => gateway.stop({ linger: 0, drain: 0 })));
    await this.log.close();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** One client, which sends a few requests on each of its connections, one request at least, and others as long as it shall. */
  private async client(goOn: () => boolean): Promise<void> {
    do await this.connection(goOn);
    while (goOn());
  }

  private connection(goOn: () => boolean): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const { port } = (this.gateways[this.sockets.size % GATEWAYS] as Gateway).address;
    const socket = createConnection(port, "127.0.0.1").setNoDelay(true);
    this.sockets.add(socket);
    let answer = "";
    let sent = 0;
    const next = () => {
      if (sent === 0 || (sent < CONNECTION && goOn())) {
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

/** The requests as they are sent, each as often as it shall come. */
function rehearsed(place: URL): Buffer[] {
  const all = JSON.parse(readFileSync(new URL("requests.json", place), "utf8")) as Rehearsed[];
  return all.flatMap(({ times, path, body }) => {
    const text =
      body === undefined
        ? ""
        : JSON.stringify(body).replaceAll("TEXT", "The quick brown fox jumps over the lazy dog. ".repeat(8));
    const head = [
      `${body === undefined ? "GET" : "POST"} ${path} HTTP/1.1`,
      "host: 127.0.0.1",
      `authorization: Bearer ${KEY}`,
      "user-agent: rehearsal",
      "accept: application/json",
      ...(body === undefined ? [] : ["content-type: application/json", `content-length: ${Buffer.byteLength(text)}`]),
    ];
    return Array<Buffer>(times).fill(Buffer.from(`${head.join("\r\n")}\r\n\r\n${text}`));
  });
}

/** Whether an answer has come to its end: in chunks, or as long as it says. */
function isWhole(answer: string): boolean {
  const head = answer.indexOf("\r\n\r\n");
  if (head < 0) return false;
  const length = /\r\ncontent-length: (\d+)/i.exec(answer.slice(0, head))?.[1];
  return length === undefined ? answer.endsWith("\r\n0\r\n\r\n") : answer.length >= head + 4 + Number(length);
}
