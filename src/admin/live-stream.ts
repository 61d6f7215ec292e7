import type { IncomingMessage, ServerResponse } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Log } from "../core/log.ts";
import { reason } from "../text/reason.ts";
import type { Access } from "./access.ts";
import { AdminError } from "./errors.ts";
import { lastHour } from "./hour.ts";
import { HEADERS } from "./messages.ts";
import { now } from "./now.ts";
import { LIVE, type LiveRequest } from "./questions.ts";
import type { AdminSubject } from "./served.ts";
import type { Visitor } from "./visitor.ts";

/** Milliseconds between looks at the running requests, for all watchers together. */
const EVERY = 1000;
/**
 * Numbers of looks between: queries of the ledger's figures, of the last hour, checks of the watchers' sessions, and keep-alive
 * comments.
 */
const FIGURES = 3;
const LAST_HOUR = 15;
const VISITORS = 5;
const ALIVE = 15;
/** Limits of requests that a watcher sees, the oldest ones, and of watchers. */
const MOST = 200;
const WATCHERS = 50;

/** A client of the stream. */
interface Watcher {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The requests as last sent, by id. */
  told: ReadonlyMap<string, Told>;
  running: number;
  quiet: number;
  /** Looks until its session is checked again. */
  trusted: number;
  readonly stop: () => void;
}

/** A request as it is sent: without its age, which clients compute themselves. */
type Told = Omit<LiveRequest, "age">;

/**
 * Streams changes of the running requests to the console as server-sent events. One look per second serves all watchers, a slow
 * client gets fewer events, and the stream ends with its session. It survives reloads: each look asks the processes that serve
 * then.
 */
export class LiveStream {
  private readonly watchers = new Set<Watcher>();
  private timer: NodeJS.Timeout | undefined;
  private looking = false;
  /** A watcher has joined since the running look began. */
  private awaited = false;
  private looks = 0;

  constructor(
    private readonly subject: AdminSubject,
    private readonly access: Access,
    private readonly log: Log,
    private readonly every = EVERY,
  ) {}

  /** @throws AdminError where there are too many watchers */
  serve(request: IncomingMessage, response: ServerResponse, visitor: Visitor): void {
    if (this.watchers.size >= WATCHERS) throw new AdminError("too_many", `${WATCHERS} watch already.`);
    const stop = this.access.whenOut(visitor, () => this.end(watcher));
    const watcher: Watcher = { request, response, told: new Map(), running: -1, quiet: 0, trusted: VISITORS, stop };
    // Keeps proxies from buffering the stream.
    response.writeHead(200, { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" });
    response.write("retry: 2000\n\n");
    response.on("close", () => this.forget(watcher)).on("error", () => {});
    this.watchers.add(watcher);
    this.looks = 0;
    this.awaited = this.looking;
    if (this.looking) return;
    // A new watcher gets its first event at once.
    clearTimeout(this.timer);
    void this.look();
  }

  /** Ends all streams. */
  close(): void {
    for (const watcher of this.watchers) watcher.response.end();
    clearTimeout(this.timer);
  }

  private async look(): Promise<void> {
    this.looking = true;
    try {
      await this.tell();
    } catch (thrown) {
      this.log.error({ cause: reason(thrown) }, "running requests could not be queried");
    }
    this.looking = false;
    const pause = this.awaited ? 0 : this.every;
    this.awaited = false;
    this.timer = this.watchers.size > 0 ? setTimeout(() => void this.look(), pause).unref() : undefined;
  }

  private async tell(): Promise<void> {
    await Promise.all([...this.watchers].map((watcher) => this.check(watcher)));
    if (this.watchers.size === 0) return;
    const time = Date.now();
    const all = (await this.subject.askAll(LIVE, null)).flat().sort((a, b) => a.time - b.time);
    const shown = new Map<string, Told>();
    for (const { age: _, ...request } of all.slice(0, MOST)) shown.set(request.id, request);
    for (const watcher of this.watchers) {
      // A watcher that does not read is skipped, and gets all changes at once when it reads again.
      if (watcher.response.writableNeedDrain) continue;
      const text = changesOf(watcher, shown, all.length, time);
      watcher.quiet = text === "" ? watcher.quiet + 1 : 0;
      if (text !== "") watcher.response.write(text);
      else if (watcher.quiet % ALIVE === 0) watcher.response.write(":\n\n");
    }
    await this.tellFigures(this.looks++);
  }

  /** Sends the ledger's figures, whose queries take longer: each event follows when its query is done. */
  private async tellFigures(look: number): Promise<void> {
    const { subject } = this;
    const pending: Promise<void>[] = [];
    const tell = async (name: string, found: Promise<object>) => {
      const text = eventOf(name, await found);
      for (const { response } of this.watchers) if (!response.writableNeedDrain) response.write(text);
    };
    if (look % FIGURES === 0) pending.push(tell("now", now(subject)));
    if (look % LAST_HOUR === 0) {
      const hour = lastHour(subject).catch(() => ({ problem: "The ledger cannot be asked." }));
      pending.push(tell("hour", hour));
    }
    await Promise.all(pending);
  }

  /** Ends a stream whose session was ended elsewhere, or whose token is no longer valid. */
  private async check(watcher: Watcher): Promise<void> {
    if (--watcher.trusted > 0) return;
    watcher.trusted = VISITORS;
    if (!(await this.access.visitor(watcher.request))) this.end(watcher);
  }

  private end(watcher: Watcher): void {
    watcher.response.end(eventOf("end", { code: "signed_out" }));
    this.forget(watcher);
  }

  private forget(watcher: Watcher): void {
    watcher.stop();
    this.watchers.delete(watcher);
  }
}

const eventOf = (name: string, content: object): string => `event: ${name}\ndata: ${JSON.stringify(content)}\n\n`;

/** Returns the event for a watcher: new requests, the changed members of known ones, and the ids of ended ones. */
function changesOf(watcher: Watcher, shown: ReadonlyMap<string, Told>, running: number, time: number): string {
  const { told } = watcher;
  const requests = [...shown.values()].flatMap((request) => {
    const before = told.get(request.id);
    if (!before) return [request];
    const changed = Object.entries(request).filter(
      ([name, value]) => !isDeepStrictEqual(value, before[name as keyof Told]),
    );
    return changed.length > 0 ? [{ id: request.id, ...Object.fromEntries(changed) }] : [];
  });
  const gone = [...told.keys()].filter((id) => !shown.has(id));
  if (requests.length + gone.length === 0 && running === watcher.running) return "";
  watcher.told = shown;
  watcher.running = running;
  return eventOf("live", { time, running, requests, gone });
}
