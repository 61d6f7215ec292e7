import { request as plain, type RequestOptions } from "node:http";
import { request as secure } from "node:https";
import { setTimeout as sleep } from "node:timers/promises";
import { Agents } from "../upstream/agents.ts";

/** Milliseconds for one try. */
const PATIENCE = 10_000;
/** Milliseconds before each further try. */
const WAITS = [1000, 4000, 15_000, 60_000];
/** A receiver that wants to be left alone for longer is not asked again, in seconds. */
const LONGEST_WAIT = 120;
/** Characters of what a receiver says that are told. */
const TOLD = 200;

/** What is posted: Slack's shape, which Mattermost, Rocket.Chat and Discord (`/slack`) take too; they leave the rest alone. */
export interface WebhookMessage {
  readonly text: string;
  /** What it is about, for programs, like `target up:fine`. */
  readonly subject: string;
  readonly state: "firing" | "resolved" | "test";
  /** Of this machine. */
  readonly host: string;
  /** ISO 8601. */
  readonly time: string;
}

/** Why a message was not taken; nothing of the address stands in it. */
class WebhookError extends Error {
  /** @param wait seconds that the receiver wants; undefined: it has not said @param final asking again changes nothing */
  constructor(
    message: string,
    readonly final: boolean,
    readonly wait?: number,
  ) {
    super(message);
  }
}

/** Posts messages to an address. HTTP_PROXY, HTTPS_PROXY and NO_PROXY are obeyed. */
export class Webhook {
  private readonly agents: Agents;

  /** @param waits milliseconds before each further try; a test may bring its own */
  constructor(
    env: NodeJS.ProcessEnv = process.env,
    private readonly waits: readonly number[] = WAITS,
  ) {
    this.agents = new Agents(env);
  }

  /**
   * Posts one, in a few tries.
   * @throws WebhookError of the last try
   */
  async post(url: URL, message: WebhookMessage, signal?: AbortSignal): Promise<void> {
    for (let at = 0; ; at++) {
      try {
        await this.once(url, message);
        return;
      } catch (thrown) {
        const { final, wait = 0 } = thrown as WebhookError;
        const pause = this.waits[at];
        if (final || pause === undefined || wait > LONGEST_WAIT || signal?.aborted) throw thrown;
        await sleep(Math.max(pause, wait * 1000), undefined, { ref: false, ...(signal && { signal }) }).catch(() => {
          throw thrown;
        });
      }
    }
  }

  /** @throws WebhookError */
  async once(url: URL, message: WebhookMessage): Promise<void> {
    const { status, text, retryAfter } = await this.send(url, Buffer.from(JSON.stringify(message)));
    if (status >= 200 && status < 300) return;
    const says = text.trim() === "" ? "" : `: ${text.trim().slice(0, TOLD)}`;
    const final = status < 500 && status !== 429 && status !== 408;
    throw new WebhookError(`${url.host} answered ${status}${says}`, final, retryAfter);
  }

  close(): void {
    this.agents.close();
  }

  private send(url: URL, body: Buffer): Promise<{ status: number; text: string; retryAfter: number | undefined }> {
    const options: RequestOptions = {
      method: "POST",
      agent: this.agents.of(url, "alerts", PATIENCE, false),
      signal: AbortSignal.timeout(PATIENCE),
      headers: {
        "content-type": "application/json",
        "content-length": body.length,
        "user-agent": "model-gateway",
      },
    };
    return new Promise((done, failed) => {
      const lost = (error: NodeJS.ErrnoException) => {
        const why = error.name === "AbortError" ? `no answer in ${PATIENCE / 1000} s` : (error.code ?? error.name);
        failed(new WebhookError(`${url.host} cannot be reached: ${why}`, false));
      };
      const outgoing = (url.protocol === "https:" ? secure : plain)(url, options, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("error", lost);
        answer.on("data", (more: string) => (text += text.length < TOLD ? more : ""));
        answer.on("end", () => {
          const wait = Number(answer.headers["retry-after"]);
          done({ status: answer.statusCode ?? 0, text, retryAfter: wait >= 0 ? wait : undefined });
        });
      });
      outgoing.on("error", lost).end(body);
    });
  }
}
