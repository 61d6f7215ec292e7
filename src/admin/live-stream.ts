import type { IncomingMessage, ServerResponse } from "node:http";
import { isDeepStrictEqual } from "node:util";
import type { Log } from "../core/log.ts";
import { formatError } from "../text/format-error.ts";
import type { Access } from "./access.ts";
import type { AdminGateway } from "./admin-gateway.ts";
import { AdminError } from "./errors.ts";
import { lastHour } from "./hour.ts";
import { SECURITY_HEADERS } from "./messages.ts";
import { overview } from "./overview.ts";
import { LIVE_REQUESTS, type LiveRequest } from "./questions.ts";
import type { AdminUser } from "./user.ts";

/** Milliseconds between polls of the running requests, for all watchers together. */
const POLL_INTERVAL = 1000;
/**
 * Numbers of polls between: queries of the ledger's figures, of the last hour, checks of the watchers' sessions, and keep-alive
 * comments.
 */
const POLLS_PER_FIGURES = 3;
const POLLS_PER_LAST_HOUR = 15;
const POLLS_PER_SESSION_CHECK = 5;
const POLLS_PER_KEEP_ALIVE = 15;
/** Limits of requests that a watcher sees, the oldest ones, and of watchers. */
const MAX_REQUESTS = 200;
const MAX_WATCHERS = 50;

/** A client of the stream. */
interface Watcher {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The requests as last sent, by id. */
  sent: ReadonlyMap<string, SentState>;
  running: number;
  unchangedPolls: number;
  /** Polls until its session is checked again. */
  pollsToCheck: number;
  readonly stop: () => void;
}

/** A request as it is sent: without its age, which clients compute themselves. */
type SentState = Omit<LiveRequest, "age">;

/**
 * Streams changes of the running requests to the console as server-sent events. One poll per second serves all watchers, a slow
 * client gets fewer events, and the stream ends with its session. It survives reloads: each poll asks the processes that serve
 * then.
 */
export class LiveStream {
  private readonly watchers = new Set<Watcher>();
  private timer: NodeJS.Timeout | undefined;
  private polling = false;
  /** A watcher has joined since the running poll began. */
  private joinedMeanwhile = false;
  private polls = 0;
  /** Names of figures that are being queried. */
  private readonly queried = new Set<string>();

  constructor(
    private readonly gateway: AdminGateway,
    private readonly access: Access,
    private readonly log: Log,
    private readonly every = POLL_INTERVAL,
  ) {}

  /** @throws AdminError where there are too many watchers */
  serve(request: IncomingMessage, response: ServerResponse, user: AdminUser): void {
    // Who has left while the session was looked up would be a watcher for good.
    if (response.destroyed) return;
    if (this.watchers.size >= MAX_WATCHERS) throw new AdminError("too_many", `${MAX_WATCHERS} watch already.`);
    const stop = this.access.onSignOut(user, () => this.end(watcher));
    const watcher: Watcher = {
      request,
      response,
      sent: new Map(),
      running: -1,
      unchangedPolls: 0,
      pollsToCheck: POLLS_PER_SESSION_CHECK,
      stop,
    };
    // Keeps proxies from buffering the stream.
    response.writeHead(200, { ...SECURITY_HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" });
    response.write("retry: 2000\n\n");
    response.on("close", () => this.forget(watcher)).on("error", () => {});
    this.watchers.add(watcher);
    this.polls = 0;
    this.joinedMeanwhile = this.polling;
    if (this.polling) return;
    // A new watcher gets its first event at once.
    clearTimeout(this.timer);
    void this.poll();
  }

  /** Ends all streams. */
  close(): void {
    for (const watcher of this.watchers) watcher.response.end();
    clearTimeout(this.timer);
  }

  private async poll(): Promise<void> {
    this.polling = true;
    try {
      await this.sendChanges();
    } catch (thrown) {
      this.logFailure(thrown);
    }
    this.polling = false;
    const pause = this.joinedMeanwhile ? 0 : this.every;
    this.joinedMeanwhile = false;
    this.timer = this.watchers.size > 0 ? setTimeout(() => void this.poll(), pause).unref() : undefined;
  }

  private logFailure(thrown: unknown): void {
    this.log.error({ cause: formatError(thrown) }, "running requests could not be queried");
  }

  private async sendChanges(): Promise<void> {
    for (const watcher of this.watchers) void this.checkSession(watcher);
    const time = Date.now();
    const all = (await this.gateway.askAll(LIVE_REQUESTS, null)).flat().sort((a, b) => a.time - b.time);
    const shown = new Map<string, SentState>();
    for (const { age: _, ...request } of all.slice(0, MAX_REQUESTS)) shown.set(request.id, request);
    for (const watcher of this.watchers) {
      // A watcher that does not read is skipped, and gets all changes at once when it reads again.
      if (watcher.response.writableNeedDrain) continue;
      const text = changeEvent(watcher, shown, all.length, time);
      watcher.unchangedPolls = text === "" ? watcher.unchangedPolls + 1 : 0;
      if (text !== "") watcher.response.write(text);
      else if (watcher.unchangedPolls % POLLS_PER_KEEP_ALIVE === 0) watcher.response.write(":\n\n");
    }
    const poll = this.polls++;
    const { gateway } = this;
    if (poll % POLLS_PER_FIGURES === 0) void this.sendFigures("now", () => overview(gateway));
    if (poll % POLLS_PER_LAST_HOUR === 0)
      void this.sendFigures("hour", () => lastHour(gateway).catch(() => ({ problem: "The ledger does not respond." })));
  }

  /** Sends figures of the ledger. Its queries may take seconds, for which running requests do not wait. Never throws. */
  private async sendFigures(name: string, query: () => Promise<object>): Promise<void> {
    if (this.queried.has(name)) return;
    this.queried.add(name);
    try {
      const text = formatEvent(name, await query());
      for (const { response } of this.watchers) if (!response.writableNeedDrain) response.write(text);
    } catch (thrown) {
      this.logFailure(thrown);
    }
    this.queried.delete(name);
  }

  /**
   * Ends a stream whose session was ended elsewhere, or whose token is no longer valid; not where the store cannot tell, in which no
   * session can be ended then.
   */
  private async checkSession(watcher: Watcher): Promise<void> {
    if (--watcher.pollsToCheck > 0) return;
    watcher.pollsToCheck = POLLS_PER_SESSION_CHECK;
    const allowed = await this.access.isStillAllowed(watcher.request).catch(() => true);
    if (!allowed) this.end(watcher);
  }

  private end(watcher: Watcher): void {
    watcher.response.end(formatEvent("end", { code: "signed_out" }));
    this.forget(watcher);
  }

  private forget(watcher: Watcher): void {
    watcher.stop();
    this.watchers.delete(watcher);
  }
}

const formatEvent = (name: string, content: object): string => `event: ${name}\ndata: ${JSON.stringify(content)}\n\n`;

/** Returns the event for a watcher: new requests, the changed members of known ones, and the ids of ended ones. */
function changeEvent(watcher: Watcher, shown: ReadonlyMap<string, SentState>, running: number, time: number): string {
  const { sent } = watcher;
  const requests = [...shown.values()].flatMap((request) => {
    const before = sent.get(request.id);
    if (!before) return [request];
    const changed = Object.entries(request).filter(
      ([name, value]) => !isDeepStrictEqual(value, before[name as keyof SentState]),
    );
    return changed.length > 0 ? [{ id: request.id, ...Object.fromEntries(changed) }] : [];
  });
  const gone = [...sent.keys()].filter((id) => !shown.has(id));
  if (requests.length + gone.length === 0 && running === watcher.running) return "";
  watcher.sent = shown;
  watcher.running = running;
  return formatEvent("live", { time, running, requests, gone });
}
