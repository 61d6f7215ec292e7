import type { RequestOptions } from "node:http";
import { request as secure } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { request as plain } from "../core/node-http.ts";
import { Agents } from "../upstream/agents.ts";

/** Milliseconds for one attempt. */
const ATTEMPT_TIMEOUT = 10_000;
/** Milliseconds before each retry. */
const RETRY_DELAYS = [1000, 4000, 15_000, 60_000];
/** Seconds: a receiver whose retry-after is longer gets no retry. */
const MAX_RETRY_AFTER = 120;
/** Characters that are kept of a receiver's response. */
const MAX_RESPONSE_TEXT = 200;

/**
 * The posted message: Slack's format, which Mattermost, Rocket.Chat and Discord (`/slack`) accept too; they ignore the other
 * members.
 */
export interface WebhookMessage {
  readonly text: string;
  /** What it is about, for programs, like `target up:fine`. */
  readonly subject: string;
  readonly state: "firing" | "resolved" | "test";
  /** Name of this machine. */
  readonly host: string;
  /** ISO 8601. */
  readonly time: string;
}

/** Why a message was not accepted; does not contain the webhook's URL. */
class WebhookError extends Error {
  /** @param wait seconds of the receiver's retry-after; undefined: none @param final whether a retry changes nothing */
  constructor(
    message: string,
    readonly final: boolean,
    readonly wait?: number,
  ) {
    super(message);
  }
}

/** Removes the secret part of the webhook's URL, which servers may repeat in an error, before the text is cut. */
const withoutPath = (text: string, { pathname, search }: URL): string =>
  [pathname + search, pathname].reduce((clean, part) => (part === "/" ? clean : clean.replaceAll(part, "…")), text);

/** Posts messages to a URL. HTTP_PROXY, HTTPS_PROXY and NO_PROXY are respected. */
export class Webhook {
  private readonly agents: Agents;

  /** @param retryDelays milliseconds before each retry; replaced in tests */
  constructor(
    env: NodeJS.ProcessEnv = process.env,
    private readonly retryDelays: readonly number[] = RETRY_DELAYS,
  ) {
    this.agents = new Agents(env);
  }

  /**
   * Posts a message, with retries.
   * @throws WebhookError of the last attempt
   */
  async post(url: URL, message: WebhookMessage, signal?: AbortSignal): Promise<void> {
    for (let at = 0; ; at++) {
      try {
        await this.once(url, message);
        return;
      } catch (thrown) {
        const { final, wait = 0 } = thrown as WebhookError;
        const pause = this.retryDelays[at];
        if (final || pause === undefined || wait > MAX_RETRY_AFTER || signal?.aborted) throw thrown;
        await sleep(Math.max(pause, wait * 1000), undefined, { ref: false, ...(signal && { signal }) }).catch(() => {
          throw thrown;
        });
      }
    }
  }

  /** Posts a message once. @throws WebhookError */
  async once(url: URL, message: WebhookMessage): Promise<void> {
    const { status, text, retryAfter } = await this.send(url, Buffer.from(JSON.stringify(message)));
    if (status >= 200 && status < 300) return;
    const told = withoutPath(text.trim(), url).slice(0, MAX_RESPONSE_TEXT);
    const responseText = told === "" ? "" : `: ${told}`;
    const final = status < 500 && status !== 429 && status !== 408;
    throw new WebhookError(`${url.host} answered ${status}${responseText}`, final, retryAfter);
  }

  close(): void {
    this.agents.close();
  }

  private send(url: URL, body: Buffer): Promise<{ status: number; text: string; retryAfter: number | undefined }> {
    const options: RequestOptions = {
      method: "POST",
      agent: this.agents.get(url, "alerts", ATTEMPT_TIMEOUT, false),
      signal: AbortSignal.timeout(ATTEMPT_TIMEOUT),
      headers: {
        "content-type": "application/json",
        "content-length": body.length,
        "user-agent": "model-gateway",
      },
    };
    return new Promise((done, failed) => {
      const fail = (error: NodeJS.ErrnoException) => {
        const why =
          error.name === "AbortError" ? `no answer in ${ATTEMPT_TIMEOUT / 1000} s` : (error.code ?? error.name);
        failed(new WebhookError(`${url.host} cannot be reached: ${why}`, false));
      };
      const outgoing = (url.protocol === "https:" ? secure : plain)(url, options, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("error", fail);
        answer.on("data", (more: string) => (text += text.length < MAX_RESPONSE_TEXT ? more : ""));
        answer.on("end", () => {
          const wait = Number(answer.headers["retry-after"]);
          done({ status: answer.statusCode ?? 0, text, retryAfter: wait >= 0 ? wait : undefined });
        });
      });
      outgoing.on("error", fail).end(body);
    });
  }
}
