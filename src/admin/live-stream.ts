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

/** Milliseconds from one look at what runs to the next, however many watch. */
const EVERY = 1000;
/** Looks from one to the next at the ledger's figures, at those of the last hour, at who watches, and to the next sign of life. */
const FIGURES = 3;
const LAST_HOUR = 15;
const VISITORS = 5;
const ALIVE = 15;
/** Requests that a watcher is told of, the oldest, and how many may watch. */
const MOST = 200;
const WATCHERS = 50;

/** Who watches what runs. */
interface Watcher {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** What was told last, by id. */
  told: ReadonlyMap<string, Told>;
  running: number;
  quiet: number;
  /** Looks until it is asked again who it is. */
  trusted: number;
  readonly stop: () => void;
}

/** A request as it is told: what grows by itself, its age, is reckoned by who reads. */
type Told = Omit<LiveRequest, "age">;

/**
 * What runs, as it changes: server-sent events for the console. One look a second serves all who watch, a slow one is told less
 * often, and it ends when its session does. A reload changes nothing about it: each look asks what serves then.
 */
export class LiveStream {
  private readonly watchers = new Set<Watcher>();
  private timer: NodeJS.Timeout | undefined;
  private looking = false;
  /** Somebody has come since the look that goes on began. */
  private awaited = false;
  private looks = 0;

  constructor(
    private readonly subject: AdminSubject,
    private readonly access: Access,
    private readonly log: Log,
    private readonly every = EVERY,
  ) {}

  /** @throws AdminError where too many watch */
  serve(request: IncomingMessage, response: ServerResponse, visitor: Visitor): void {
    if (this.watchers.size >= WATCHERS) throw new AdminError("too_many", `${WATCHERS} watch already.`);
    const stop = this.access.whenOut(visitor, () => this.end(watcher));
    const watcher: Watcher = { request, response, told: new Map(), running: -1, quiet: 0, trusted: VISITORS, stop };
    // Proxies that gather answers would hold it back.
    response.writeHead(200, { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" });
    response.write("retry: 2000\n\n");
    response.on("close", () => this.forget(watcher)).on("error", () => {});
    this.watchers.add(watcher);
    this.looks = 0;
    this.awaited = this.looking;
    if (this.looking) return;
    // Who comes is told at once, also between two looks.
    clearTimeout(this.timer);
    void this.look();
  }

  /** Ends all of them. */
  close(): void {
    for (const watcher of this.watchers) watcher.response.end();
    clearTimeout(this.timer);
  }

  private async look(): Promise<void> {
    this.looking = true;
    try {
      await this.tell();
    } catch (thrown) {
      this.log.error({ cause: reason(thrown) }, "what runs could not be asked");
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
      // One that does not read keeps what it was told last, and is told the rest at once when it does.
      if (watcher.response.writableNeedDrain) continue;
      const text = changesOf(watcher, shown, all.length, time);
      watcher.quiet = text === "" ? watcher.quiet + 1 : 0;
      if (text !== "") watcher.response.write(text);
      else if (watcher.quiet % ALIVE === 0) watcher.response.write(":\n\n");
    }
    await this.tellFigures(this.looks++);
  }

  /** What the ledger is asked for, which takes longer: it follows when it is there, each by itself. */
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

  /** Ends it where its session has ended elsewhere, or its token is not taken any more. */
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

/** What is new to a watcher: whole requests, of those that it knows the members that differ, and which have ended. */
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
