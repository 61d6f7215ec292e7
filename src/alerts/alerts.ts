import { hostname } from "node:os";
import type { Log } from "../core/log.ts";
import type { Redactor } from "../core/redactor.ts";
import type { AlertClaims } from "../store/alert-claims.ts";
import type { Webhook, WebhookMessage } from "./webhook.ts";

/** Messages that wait to be posted at most; further ones are in the log only. */
const MOST = 100;
/** Subjects that are remembered at most. */
const REMEMBERED = 2000;
/** Characters of a message. */
const LONGEST = 1000;

/** Something that somebody should know, as long as it lasts. */
interface Alert {
  /** What it is about, like `target up:fine`. */
  readonly subject: string;
  /** How it is: another state of the same subject is told at once. */
  readonly state: string;
  readonly text: string;
}

interface AlertsParts {
  readonly webhook: Pick<Webhook, "post">;
  readonly log: Log;
  readonly claims: AlertClaims;
  /** What gateway.yaml says now; undefined: nobody is told. */
  readonly settings: () => { readonly webhook: URL; readonly repeat: number } | undefined;
  /** Nothing that leaves holds a secret. */
  readonly redactor: () => Redactor;
  /** Monotonic milliseconds; a test may bring its own. */
  readonly clock?: () => number;
}

/**
 * Tells somebody of what should not be: once for each subject and state, again after a while as long as it lasts, and once
 * when it is over. Nothing of it keeps a request waiting.
 */
export class Alerts {
  posted = 0;
  failed = 0;
  private readonly told = new Map<string, { state: string; at: number }>();
  private readonly queue: { message: WebhookMessage; state: string }[] = [];
  private posting: Promise<void> | undefined;
  private readonly closing = new AbortController();

  constructor(private readonly parts: AlertsParts) {}

  /** Something is the matter. */
  raise({ subject, state, text }: Alert): void {
    const settings = this.parts.settings();
    if (!settings) return;
    const known = this.told.get(subject);
    const now = this.now();
    if (known?.state === state && now - known.at < settings.repeat) return;
    if (!known && this.told.size >= REMEMBERED) this.told.delete(this.told.keys().next().value as string);
    this.told.set(subject, { state, at: now });
    this.add(subject, state, "firing", text);
  }

  /** Nothing is the matter with it any more. @param text what is told where it was */
  resolve(subject: string, text: string): void {
    if (!this.told.delete(subject)) return;
    this.add(subject, "resolved", "resolved", text);
  }

  /** Whether it was told of a subject that something is the matter. */
  knows(subject: string): boolean {
    return this.told.has(subject);
  }

  /** Subjects of which that was told. */
  get subjects(): Iterable<string> {
    return this.told.keys();
  }

  /** Until everything that waits is posted, or given up. */
  async settled(): Promise<void> {
    while (this.posting) await this.posting;
  }

  /** What has not been posted is given up. */
  close(): void {
    this.closing.abort();
    this.queue.length = 0;
  }

  private now(): number {
    return (this.parts.clock ?? performance.now.bind(performance))();
  }

  private add(subject: string, state: string, kind: WebhookMessage["state"], text: string): void {
    if (this.closing.signal.aborted || !this.parts.settings()) return;
    if (this.queue.length >= MOST) {
      this.lost(subject, `more than ${MOST} alerts wait to be posted`);
      return;
    }
    this.queue.push({ message: messageOf(subject, kind, this.parts.redactor().text(text)), state });
    this.posting ??= this.postAll().finally(() => (this.posting = undefined));
  }

  private async postAll(): Promise<void> {
    for (let next = this.queue.shift(); next; next = this.queue.shift()) {
      const settings = this.parts.settings();
      if (!settings) continue;
      const { message, state } = next;
      try {
        if (!(await this.mine(message.subject, state, settings.repeat))) continue;
        await this.parts.webhook.post(settings.webhook, message, this.closing.signal);
        this.posted++;
      } catch (thrown) {
        this.lost(message.subject, (thrown as Error).message);
      }
    }
  }

  /** Of several gateways the first one tells it; where nobody knows who that is, each does. */
  private async mine(subject: string, state: string, repeat: number): Promise<boolean> {
    // Half of it: of two that look at other moments each could be a little too early for its own repetition.
    return this.parts.claims.claim(subject, state, repeat / 2).catch(() => true);
  }

  private lost(subject: string, cause: string): void {
    this.failed++;
    this.parts.log.error({ subject, cause: this.parts.redactor().text(cause) }, "an alert could not be posted");
  }
}

/** As receivers get it. */
export function messageOf(subject: string, state: WebhookMessage["state"], text: string): WebhookMessage {
  const host = hostname();
  const sign = { firing: ":rotating_light:", resolved: ":white_check_mark:", test: ":wave:" }[state];
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  // Slack reads these three; a name of somebody's may hold them.
  const plain = short.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return { text: `${sign} ${plain} (${host})`, subject, state, host, time: new Date().toISOString() };
}

/** Posts one message by hand. @throws WebhookError */
export async function postTest(webhook: Pick<Webhook, "once">, url: URL): Promise<void> {
  await webhook.once(url, messageOf("test", "test", "A test: alerts of this gateway arrive here."));
}
