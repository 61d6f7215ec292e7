import { randomUUID } from "node:crypto";
import { type DoneExchange, Log, Options, type Plugin, type ResponseExchange, type Stage, slot } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Reports each exchange to Langfuse, in background batches, by its public ingestion API. No request waits for it. */
@injectable()
export default class Langfuse implements Plugin {
  static options = z.strictObject({
    url: z.url().default("https://cloud.langfuse.com"),
    public_key: z.string(),
    secret_key: z.string().describe("Write $LANGFUSE_SECRET_KEY."),
    texts: z.boolean().default(false).describe("Whether what was written and answered is sent too."),
    seconds: z.number().positive().default(5).describe("Between two batches."),
    most: z.int().min(1).default(1000).describe("Events that wait; what comes then is lost, and counted in the log."),
  });

  private readonly answer = slot((): { output?: string } => ({}));
  private waiting: object[] = [];
  private lost = 0;
  private last = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof Langfuse.options>,
  ) {}

  start({ dry }: { dry: boolean }): void {
    if (!dry) this.timer = setInterval(() => this.flush(), this.options.seconds * 1000).unref();
  }

  response(exchange: ResponseExchange): Stage | undefined {
    const pieces: Buffer[] = [];
    const whole = () => exchange.completeResponseTexts(Buffer.concat(pieces), ["assistant"]).map(({ text }) => text);
    if (!this.options.texts) return undefined;
    return ({ kind, bytes }) => {
      if (kind === "end") this.answer(exchange).output = whole().join("\n");
      else pieces.push(Buffer.from(bytes));
    };
  }

  done(exchange: DoneExchange): void {
    const { id, time, elapsed, caller, model, attempt, usage, outcome, error } = exchange;
    if (exchange.dryRun) return;
    const [startTime, endTime] = [time, time + elapsed].map((each) => new Date(each).toISOString());
    const input = this.options.texts
      ? exchange.texts().map(({ kind, text }) => ({ role: kind, content: text }))
      : undefined;
    const common = { name: model?.id, input, ...this.answer(exchange) };
    this.add("trace-create", { ...common, id, timestamp: startTime, userId: caller?.name });
    this.add("generation-create", {
      ...{ ...common, id: `${id}-1`, traceId: id, model: attempt?.target.model, startTime, endTime },
      usageDetails: usage && { input: usage.in.total, output: usage.out.total },
      ...{ level: outcome === "completed" ? "DEFAULT" : "ERROR", statusMessage: error?.code },
    });
  }

  /** The last batch gets a plugin's time for closing. */
  close(): Promise<void> {
    clearInterval(this.timer);
    return this.flush();
  }

  /** The event's own id makes Langfuse count a repeated event once. */
  private add(type: string, body: object): void {
    if (this.waiting.length >= this.options.most) this.lost++;
    else this.waiting.push({ id: randomUUID(), type, timestamp: new Date().toISOString(), body });
  }

  private flush(): Promise<void> {
    this.last = this.last.then(() => this.post(this.waiting.splice(0)));
    return this.last;
  }

  private async post(batch: readonly object[]): Promise<void> {
    const { url, public_key, secret_key } = this.options;
    const authorization = `Basic ${btoa(`${public_key}:${secret_key}`)}`;
    const headers = { "content-type": "application/json", authorization };
    if (this.lost > 0) this.log.warn({ lost: this.lost }, "too many events wait for Langfuse");
    this.lost = 0;
    if (batch.length === 0) return;
    try {
      const asked = { method: "POST", headers, body: JSON.stringify({ batch }), signal: AbortSignal.timeout(4000) };
      const response = await fetch(new URL("/api/public/ingestion", url), asked);
      await response.arrayBuffer();
      if (!response.ok) throw new Error(`status ${response.status}`);
    } catch (thrown) {
      this.log.warn({ lost: batch.length, cause: (thrown as Error).message }, "Langfuse did not take a batch");
    }
  }
}
