import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import {
  type AccessExchange,
  type Attempt,
  type DoneExchange,
  type FailedAnswer,
  type Head,
  Log,
  Options,
  type Plugin,
  type RecordedExchange,
  type RequestExchange,
  type ResponseExchange,
  type SendExchange,
  type Stage,
  slot,
} from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";
import { Capture, type CaptureState, rawExchange, rawMessage, releasedBodies } from "./record/capture.ts";
import { isRecordFile, readRecorded } from "./record/file.ts";
import type { RecordFileOptions } from "./record/messages.ts";
import { MARGIN } from "./record/redactor.ts";
import { RecordThread } from "./record/thread.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/**
 * Maximum recordings per minute of requests refused without a key: anyone can cause any number of those, and they would
 * displace other recordings.
 */
const UNKEYED_PER_MINUTE = 10;
const MIB = 1_048_576;

/** Limits the recordings of such requests. */
class UnkeyedRate {
  private minuteStart = 0;
  private count = 0;

  /** Reports whether another one may be recorded, and counts it. */
  take(): boolean {
    const now = performance.now();
    if (now - this.minuteStart >= MINUTE) [this.minuteStart, this.count] = [now, 0];
    return ++this.count <= UNKEYED_PER_MINUTE;
  }
}

const Pattern = z.string().superRefine((source, context) => {
  const message = patternProblem(source);
  if (message !== undefined) context.addIssue({ code: "custom", message });
});
const RecordOptions = z
  .strictObject({
    sample: z
      .number()
      .min(0)
      .max(1)
      .default(0)
      .describe("The share of exchanges that is kept: 0.01 is one in a hundred."),
    errors: z
      .boolean()
      .default(false)
      .describe("Whether failed and refused exchanges are always kept; of those without a known key, ten a minute."),
    file: z
      .string()
      .min(1)
      .default("./data/recorded.db")
      .describe("The SQLite file of recordings, relative to the working folder."),
    hours: z.number().positive().max(8784).default(72).describe("How long an exchange is kept."),
    megabytes: z
      .int()
      .min(1)
      .max(1_048_576)
      .default(256)
      .describe("Approximate limit of all recordings (compressed); the oldest are deleted first."),
    body_kilobytes: z
      .int()
      .min(1)
      .max(16_384)
      .default(256)
      .describe("Limit of each recorded body; the rest is left out."),
    queue_megabytes: z
      .int()
      .min(1)
      .max(1024)
      .default(16)
      .describe("Limit of recordings that wait to be written; further ones are dropped."),
    patterns: z
      .array(Pattern)
      .default([])
      .describe(
        "Regular expressions (flags giu) of texts that are removed, besides everything with the shape of a key.",
      ),
  })
  .refine(({ sample, errors }) => sample > 0 || errors, "nothing is kept: set sample, like 0.01, or errors: true")
  .refine(
    ({ megabytes, body_kilobytes }) => body_kilobytes * 1024 <= megabytes * MIB,
    "body_kilobytes is more than megabytes",
  );

/**
 * Records some exchanges, as the client and the providers saw them, without secrets, for the console's page of a request. The
 * plugin is in its chain twice, first and last: the first place sees the client's side, the last one the provider's. A
 * separate thread removes secrets and writes; what exceeds its queue is dropped, and counted in the log.
 */
@injectable()
export default class Record implements Plugin {
  static options = RecordOptions;
  static twice = true;

  /** Recordings that wait for the rest of a response, or for the search of one. */
  private readonly pending = new Set<Promise<void>>();
  private readonly state = slot((): CaptureState => ({ instances: 0, sampled: false }));
  private readonly fileOptions: RecordFileOptions;
  private readonly patterns: readonly RegExp[];
  /** Bytes of each body. */
  private readonly maxBody: number;
  private thread: RecordThread | undefined;
  private readonly unkeyedRate = new UnkeyedRate();

  constructor(
    private readonly log: Log,
    @inject(Options) private readonly options: z.infer<typeof RecordOptions>,
  ) {
    const { file, hours, megabytes, body_kilobytes, patterns } = options;
    this.maxBody = body_kilobytes * 1024;
    this.fileOptions = { file: resolve(file), milliseconds: hours * HOUR, bytes: megabytes * MIB };
    this.patterns = patterns.map((source) => new RegExp(source, "giu"));
  }

  /** Starts the thread. @throws Error where the file cannot hold recordings */
  async start({ dry }: { dry: boolean }): Promise<void> {
    const { file } = this.fileOptions;
    if (isFolder(file)) throw new Error(`${file} is a folder: file names a file of its own`);
    if (isFolder(dirname(file)) === false) throw new Error(`${dirname(file)} is no folder`);
    // Not where a former generation has it open, whose locks that would release.
    if (dry && !isRecordFile(file)) throw new Error(`${file} is no file of recordings: name one of its own`);
    if (dry) return;
    const { queue_megabytes, patterns } = this.options;
    const terms = { ...this.fileOptions, body: this.maxBody, patterns };
    this.thread = await RecordThread.start(terms, queue_megabytes * MIB, this.log);
  }

  access(exchange: AccessExchange): void {
    if (exchange.dryRun) return;
    const state = this.state(exchange);
    state.instances++;
    if (state.instances > 1) return;
    state.sampled = Math.random() < this.options.sample;
    if (!state.sampled && !this.options.errors) return;
    const query = exchange.query.toString();
    state.head = rawMessage(`${exchange.method} ${exchange.path}${query && `?${query}`}`, exchange.headers.lines);
  }

  request(exchange: RequestExchange): void {
    const state = this.state(exchange);
    if (state.head) state.body ??= exchange.body;
  }

  failed(exchange: SendExchange, attempt: Attempt, answer: FailedAnswer): void {
    const state = this.state(exchange);
    if (!state.head || state.failed?.has(attempt)) return;
    state.failed ??= new Map();
    state.failed.set(attempt, { answer, read: answer.readBody(this.maxBody + 2 * MARGIN) });
  }

  response(exchange: ResponseExchange, head: Head): Stage | undefined {
    const state = this.state(exchange);
    if (!state.head) return undefined;
    const { credential } = exchange.attempt ?? {};
    const secrets = [...exchange.credentials, ...(credential ? [credential.secret] : [])];
    const capture = new Capture(exchange, head, this.maxBody, secrets, this.patterns);
    // The order is from the chain's end to its beginning; a plugin's own response passes only the beginning.
    if (exchange.answerer || state.provider) state.client = capture;
    else state.provider = capture;
    state.released ??= releasedBodies(exchange, this.maxBody);
    return capture.stage;
  }

  done(exchange: DoneExchange): void | Promise<void> {
    const state = this.state(exchange);
    const { head } = state;
    // The plugin's second place has nothing to add.
    delete state.head;
    const { thread, options } = this;
    const failed = options.errors && !["completed", "aborted"].includes(exchange.outcome);
    if (!head || !thread || (!state.sampled && !failed)) return;
    if (exchange.outcome === "rejected" && exchange.caller === undefined && !this.unkeyedRate.take()) return;
    const keep = () => thread.keep(rawExchange(exchange, { ...state, head }, this.maxBody), secretsOf(exchange));
    const reads = [...(state.failed?.values() ?? [])].map(({ read }) => read);
    const pending = [...reads, state.provider?.clean(), state.client?.clean()].filter((each) => each !== undefined);
    if (pending.length === 0) return keep();
    const kept = Promise.all(pending).then(keep);
    this.pending.add(kept);
    return kept.finally(() => this.pending.delete(kept));
  }

  async recorded(id: string): Promise<RecordedExchange | undefined> {
    await Promise.allSettled(this.pending);
    await this.thread?.settled();
    return readRecorded(this.fileOptions, id);
  }

  async close(): Promise<void> {
    await this.thread?.close();
  }
}

const secretsOf = ({ credentials, attempts }: DoneExchange): string[] => [
  ...credentials,
  ...attempts.flatMap(({ credential }) => credential?.secret ?? []),
];

/** Reports whether a path is a folder; undefined where it does not exist. */
const isFolder = (place: string): boolean | undefined => statSync(place, { throwIfNoEntry: false })?.isDirectory();

/** Returns why a text is no pattern; undefined: it is one. */
function patternProblem(source: string): string | undefined {
  try {
    return new RegExp(source, "giu").test("") ? "this matches empty text, which is everywhere" : undefined;
  } catch (thrown) {
    // "Invalid regular expression: /…/giu: Unterminated group"
    return `this is no regular expression: ${(thrown as Error).message.replace(/^.*: /s, "").toLowerCase()}`;
  }
}
