import { randomUUID } from "node:crypto";
import { type DoneExchange, Log, Options, type Plugin, type ResponseExchange, type Stage, slot } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Characters of a batch that Langfuse takes, and of the texts of an exchange: one that is too large would be refused with all others. */
const [MAX_BATCH, MAX_TEXTS] = [3_000_000, 300_000];
/** Bytes of an answer that is kept to its end: each of those that run at the same time takes as many. */
const MAX_ANSWER = 4_194_304;

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

  private readonly answer = slot((): { output?: string; isLarge?: true } => ({}));
  /** Events as JSON. */
  private waiting: string[] = [];
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
    let length = 0;
    const whole = () => exchange.completeResponseTexts(Buffer.concat(pieces), ["assistant"]).map(({ text }) => text);
    if (!this.options.texts) return undefined;
    return ({ kind, bytes }) => {
      length += bytes.length;
      if (length > MAX_ANSWER) {
        pieces.length = 0;
        this.answer(exchange).isLarge = true;
      } else if (kind === "end") this.answer(exchange).output = whole().join("\n");
      else pieces.push(Buffer.from(bytes));
    };
  }

  done(exchange: DoneExchange): void {
    const { id, time, elapsed, caller, model, attempt, usage, outcome, error } = exchange;
    if (exchange.dryRun) return;
    const [startTime, endTime] = [time, time + elapsed].map((each) => new Date(each).toISOString());
    const texts = this.options.texts ? requestTexts(exchange) : undefined;
    const { output, isLarge = JSON.stringify([texts, output]).length > MAX_TEXTS } = this.answer(exchange);
    const written = isLarge ? { metadata: { texts: "too large" } } : { input: texts, output };
    const common = { name: model?.id, ...written };
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
    else this.waiting.push(JSON.stringify({ id: randomUUID(), type, timestamp: new Date().toISOString(), body }));
  }

  private flush(): Promise<void> {
    this.last = this.last.then(async () => {
      do await this.post(this.takeBatch());
      while (this.waiting.length > 0);
    });
    return this.last;
  }

  private takeBatch(): string[] {
    let [count, length] = [0, 0];
    for (const event of this.waiting) {
      length += event.length;
      if (count > 0 && length > MAX_BATCH) break;
      count++;
    }
    return this.waiting.splice(0, count);
  }

  private async post(batch: readonly string[]): Promise<void> {
    const { url, public_key, secret_key } = this.options;
    const authorization = `Basic ${btoa(`${public_key}:${secret_key}`)}`;
    const headers = { "content-type": "application/json", authorization };
    if (this.lost > 0) this.log.warn({ lost: this.lost }, "too many events wait for Langfuse");
    this.lost = 0;
    if (batch.length === 0) return;
    try {
      const asked = { method: "POST", headers, body: `{"batch":[${batch.join()}]}`, signal: AbortSignal.timeout(4000) };
      const response = await fetch(new URL("/api/public/ingestion", url), asked);
      await response.arrayBuffer();
      if (!response.ok) throw new Error(`status ${response.status}`);
    } catch (thrown) {
      this.log.warn({ lost: batch.length, cause: (thrown as Error).message }, "Langfuse did not take a batch");
    }
  }
}

/** Returns the texts of a request; none of one that names a member twice or in other letters: readers take different ones. */
function requestTexts(exchange: DoneExchange): { role: string; content: string }[] | undefined {
  try {
    return exchange.texts().map(({ kind, text }) => ({ role: kind, content: text }));
  } catch {
    return undefined;
  }
}
