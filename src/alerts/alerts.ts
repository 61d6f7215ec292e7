import { hostname } from "node:os";
import { thrownMessage } from "../core/errors.ts";
import type { Log } from "../core/log.ts";
import type { Redactor } from "../core/redactor.ts";
import { type AlertClaims, RESOLVED } from "../store/alert-claims.ts";
import type { Webhook, WebhookMessage } from "./webhook.ts";

/** Limit of messages that wait to be posted; further ones are only logged. */
const MAX_QUEUED = 100;
/** Limit of remembered subjects. */
const MAX_SUBJECTS = 2000;
/**
 * Milliseconds after which an alert that could not be posted, or that another gateway has claimed, which may not be able to post it,
 * is raised again, if its condition lasts; its end, too.
 */
const RAISED_AGAIN = 5 * 60_000;
/** Characters of a message. */
const MAX_TEXT_LENGTH = 1000;

/** A lasting condition that an operator should know. */
interface Alert {
  /** What it is about, like `target up:fine`. */
  readonly subject: string;
  /** The condition's state: a change of it is posted at once. */
  readonly state: string;
  /** Whether states are ordered as text, and one that is lower than the last is not posted: another gateway may find it late. */
  readonly ordered?: boolean;
  readonly text: string;
}

interface ActiveAlert {
  /** `RESOLVED`: it has ended, but that is not told yet. */
  readonly state: string;
  at: number;
  readonly ordered?: boolean;
  /**
   * Whether another gateway has claimed it, or this one has, but could neither post it nor release the claim: nobody was told;
   * undefined: neither.
   */
  claim: "another's" | "unposted" | undefined;
}

interface AlertsParts {
  readonly webhook: Pick<Webhook, "post">;
  readonly log: Log;
  readonly claims: Pick<AlertClaims, "claim" | "release">;
  /** The current settings of gateway.yaml; undefined: alerts are off. */
  readonly settings: () => { readonly webhook: URL; readonly repeat: number } | undefined;
  /** Redacts secrets from everything that is posted. */
  readonly redactor: () => Redactor;
  /** Monotonic milliseconds; replaced in tests. */
  readonly clock?: () => number;
}

/**
 * Posts alerts: once for each subject and state, repeated while it lasts, and once when it is over. No request waits for them.
 */
export class Alerts {
  posted = 0;
  failed = 0;
  private readonly active = new Map<string, ActiveAlert>();
  private readonly queue: { message: WebhookMessage; state: string; ordered: boolean }[] = [];
  private posting: Promise<void> | undefined;
  private readonly closing = new AbortController();

  constructor(private readonly parts: AlertsParts) {}

  /** Raises an alert. */
  raise({ subject, state, text, ordered = false }: Alert): void {
    const settings = this.parts.settings();
    if (!settings) return;
    const known = this.active.get(subject);
    const now = this.now();
    if (known?.state === state && now - known.at < settings.repeat) return;
    if (ordered && known && state < known.state) return;
    if (!known && this.active.size >= MAX_SUBJECTS) this.forgetOne();
    this.active.set(subject, { state, at: now, claim: known?.claim, ordered });
    this.enqueue(subject, state, "firing", text, ordered);
  }

  /**
   * Ends an alert. One whose end could not be posted is remembered until it is: call this again while the subject is well.
   * @param text of the message, posted only if there was an alert
   */
  resolve(subject: string, text: string): void {
    const known = this.active.get(subject);
    if (!known || (known.state === RESOLVED && !this.isDue(subject))) return;
    this.active.set(subject, {
      ...{ state: RESOLVED, at: this.now() },
      claim: known.state === RESOLVED ? known.claim : undefined,
    });
    this.enqueue(subject, RESOLVED, "resolved", text);
  }

  /** Reports whether there is an alert on a subject that is to be repeated if it lasts. */
  isDue(subject: string): boolean {
    const known = this.active.get(subject);
    const settings = this.parts.settings();
    return known !== undefined && settings !== undefined && this.now() - known.at >= settings.repeat;
  }

  /** Takes over alerts that a former process posted and did not end: their end is posted, too. */
  adopt(subjects: readonly string[]): void {
    for (const subject of subjects.slice(0, MAX_SUBJECTS))
      if (!this.active.has(subject))
        this.active.set(subject, { state: "", at: Number.NEGATIVE_INFINITY, claim: undefined });
  }

  /** Subjects with an alert, or with an end that is not told yet. */
  get subjects(): Iterable<string> {
    return this.active.keys();
  }

  /** Settles when everything that waits is posted or given up. */
  async flush(): Promise<void> {
    while (this.posting) await this.posting;
  }

  /** Discards what has not been posted. */
  close(): void {
    this.closing.abort();
    this.queue.length = 0;
  }

  private now(): number {
    return (this.parts.clock ?? performance.now.bind(performance))();
  }

  private enqueue(subject: string, state: string, kind: WebhookMessage["state"], text: string, ordered = false): void {
    if (this.closing.signal.aborted || !this.parts.settings()) return;
    if (this.isFull) {
      this.noteFailure(subject, state, `more than ${MAX_QUEUED} alerts wait to be posted`);
      return;
    }
    this.queue.push({
      message: webhookMessage(subject, kind, this.parts.redactor().text(text)),
      state,
      ordered,
    });
    this.posting ??= this.postAll().finally(() => (this.posting = undefined));
  }

  /** Whether too many wait. Those that another gateway has claimed do not count: they are asked about often, and seldom posted. */
  private get isFull(): boolean {
    const { queue, active } = this;
    if (queue.length < MAX_QUEUED) return false;
    return queue.filter(({ message }) => active.get(message.subject)?.claim !== "another's").length >= MAX_QUEUED;
  }

  private async postAll(): Promise<void> {
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      const settings = this.parts.settings();
      if (!settings) continue;
      const { message, state, ordered } = next;
      const { subject } = message;
      try {
        if (!(await this.claim(subject, state, settings.repeat, ordered))) {
          // Of an end that is another's also when it is asked about again, that one has told.
          if (this.active.get(subject)?.claim === "another's") this.forgetEnded(subject, state);
          this.setClaim(subject, "another's");
          this.raiseAgainSoon(subject, state);
          continue;
        }
        this.setClaim(subject, undefined);
        await this.parts.webhook.post(settings.webhook, message, this.closing.signal);
        this.posted++;
        this.forgetEnded(subject, state);
      } catch (thrown) {
        this.noteFailure(subject, state, thrownMessage(thrown));
        await this.parts.claims.release(subject, state).catch(() => this.setClaim(subject, "unposted"));
      }
    }
  }

  /** Forgets the oldest subject: one with ordered states, like a budget's, if there is any, as of those no end is posted. */
  private forgetOne(): void {
    const subjects = [...this.active.keys()];
    const oldest = subjects.find((subject) => this.active.get(subject)?.ordered) ?? subjects[0];
    this.active.delete(oldest as string);
  }

  /** Forgets a subject whose end has been told, if it has not begun again. */
  private forgetEnded(subject: string, state: string): void {
    if (state === RESOLVED && this.active.get(subject)?.state === RESOLVED) this.active.delete(subject);
  }

  private setClaim(subject: string, claim: ActiveAlert["claim"]): void {
    const known = this.active.get(subject);
    if (known) known.claim = claim;
  }

  /** Claims an alert: of several gateways the first posts it; where the store does not answer, each does. */
  private async claim(subject: string, state: string, repeat: number, ordered: boolean): Promise<boolean> {
    // Half of the interval: of two gateways that check at different times, one could be slightly too early for its own
    // repetition. One that asks more often has the alert only where the other one does not repeat it.
    const claim = this.active.get(subject)?.claim;
    // An end is told once: when it is asked about again, more than an interval may have passed since it was.
    const ofAnother = state === RESOLVED ? 2 * repeat + RAISED_AGAIN : repeat;
    const timeout = claim === "unposted" ? 0 : claim === "another's" ? ofAnother : repeat / 2;
    return this.parts.claims.claim(subject, state, timeout, ordered).catch(() => true);
  }

  /** Makes an alert that lasts due again soon, not only after `repeat`. */
  private raiseAgainSoon(subject: string, state: string): void {
    const known = this.active.get(subject);
    const { repeat = 0 } = this.parts.settings() ?? {};
    if (known?.state === state) known.at = this.now() - Math.max(0, repeat - RAISED_AGAIN);
  }

  /** Counts and logs a failure. */
  private noteFailure(subject: string, state: string, cause: string): void {
    this.failed++;
    this.raiseAgainSoon(subject, state);
    this.parts.log.error({ subject, cause: this.parts.redactor().text(cause) }, "an alert could not be posted");
  }
}

/** Builds a message for receivers. */
export function webhookMessage(subject: string, state: WebhookMessage["state"], text: string): WebhookMessage {
  const host = hostname();
  const sign = { firing: ":rotating_light:", resolved: ":white_check_mark:", test: ":wave:" }[state];
  const short = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH)}…` : text;
  // Slack interprets these three characters; a user's names may contain them.
  const plain = short.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return { text: `${sign} ${plain} (${host})`, subject, state, host, time: new Date().toISOString() };
}

/** Posts a test message. @throws WebhookError */
export async function postTestAlert(webhook: Pick<Webhook, "once">, url: URL): Promise<void> {
  await webhook.once(url, webhookMessage("test", "test", "A test: alerts of this gateway arrive here."));
}
