import sonic, { type SonicBoom } from "sonic-boom";
import { LF } from "../wire/grammar.ts";
import { internalize } from "../wire/internalize.ts";

/** The gateway's log. Never pass headers, bodies or credentials to it. */
export abstract class Log {
  abstract debug(fields: object, message: string): void;
  abstract info(fields: object, message: string): void;
  abstract warn(fields: object, message: string): void;
  abstract error(fields: object, message: string): void;
  /** Waits until everything logged is written, but only for a limited time, as nobody may be reading it. */
  abstract flush(): Promise<void>;
  /** Sets the lowest level that is written. */
  set level(_level: string) {}
}

/** The levels of pino, whose line format log readers know. */
const LEVELS: Readonly<Record<string, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 };

/** Writes JSON lines to a file descriptor, in the background. */
export class JsonLog extends Log {
  private readonly lines: LineWriter;
  /** The lowest level that is written. */
  private minLevel = 30;
  /** Second and level of the last line, and its text up to the decimal point. */
  private second = -1;
  private lastLevel = 0;
  private upToSecond = "";
  /** Its message, and the text of that. */
  private message = "";
  private lastMember = '"msg":""}\n';

  /**
   * @param fd the output; default: standard output. It must not block: a write that waits for a reader occupies a thread, and a
   *   process cannot exit before that ends. Node makes its standard output non-blocking when it opens it.
   * @param limit bytes that may be queued for a reader that has stopped reading; later lines are lost, and counted
   */
  constructor(fd: number = process.stdout.fd, limit: number = MAX_QUEUED) {
    super();
    this.lines = new LineWriter(fd, limit);
  }

  override set level(level: string) {
    this.minLevel = LEVELS[level] ?? Number.POSITIVE_INFINITY;
  }

  debug(fields: object, message: string): void {
    this.log(20, fields, message);
  }

  info(fields: object, message: string): void {
    this.log(30, fields, message);
  }

  warn(fields: object, message: string): void {
    this.log(40, fields, message);
  }

  error(fields: object, message: string): void {
    this.log(50, fields, message);
  }

  /** Writes lines made by another process. */
  relay(lines: Buffer): void {
    this.lines.writeLines(lines);
  }

  flush(): Promise<void> {
    return this.lines.flush();
  }

  /** Flushes, and closes the file descriptor. Nothing can be logged afterwards. */
  close(): Promise<void> {
    return this.lines.close();
  }

  private log(level: number, fields: object, message: string): void {
    if (level < this.minLevel) return;
    this.lines.writeLine(this.start(level) + membersOf(fields ?? {}) + this.end(message));
  }

  /** Returns a line up to its members. */
  private start(level: number): string {
    const now = Date.now();
    const second = Math.floor(now / 1000);
    if (second !== this.second || level !== this.lastLevel) {
      this.second = second;
      this.lastLevel = level;
      this.upToSecond = internalize(`{"level":${level},"time":"${new Date(now).toISOString().slice(0, 20)}`);
    }
    return this.upToSecond + MILLISECONDS[now % 1000];
  }

  /** Returns a line from its message on. */
  private end(message: string): string {
    if (message !== this.message) {
      this.message = message;
      // A plugin's may be missing.
      this.lastMember = internalize(`"msg":${JSON.stringify(message) ?? null}}\n`);
    }
    return this.lastMember;
  }
}

/** What follows the seconds of a time, for each millisecond. */
const MILLISECONDS = Array.from({ length: 1000 }, (_, ms) => `${String(ms).padStart(3, "0")}Z",`);

/**
 * Returns the members as JSON, each followed by a comma. A plugin's fields may be no object, or not serializable: the line then says
 * so, and logging does not throw.
 */
function membersOf(fields: object & { err?: unknown }): string {
  const err = fields instanceof Error ? fields : fields.err;
  try {
    const text = JSON.stringify(err instanceof Error ? { ...fields, err: serializeError(err) } : fields);
    if (!text?.startsWith("{")) return `"fields":${text ?? null},`;
    return text === "{}" ? "" : `${text.slice(1, -1)},`;
  } catch (thrown) {
    return `"unwritten":${JSON.stringify(String(thrown))},`;
  }
}

const serializeError = ({ name: type, message, stack }: Error) => ({ type, message, stack });

/**
 * Bytes that justify a write of their own, and the maximum milliseconds that a line waits for others. Each write wakes a thread,
 * which costs more than its bytes do.
 */
const MIN_WRITE = 64 * 1024;
const FLUSH_INTERVAL = 100;
/** About 60,000 lines. */
const MAX_QUEUED = 16 * 1024 * 1024;
/** Milliseconds that the reader has when the process is about to exit. */
const FLUSH_TIMEOUT = 1000;

declare module "sonic-boom" {
  interface SonicBoom {
    /** The signature with `contentMode: "buffer"`, missing in its types. */
    write(line: Buffer): boolean;
  }
}

/** Passes lines to a sonic-boom, which writes in the background, and counts those that it could not write. */
class LineWriter {
  private readonly file: SonicBoom;
  /** The end of each line not yet known to be written, in bytes since the start. */
  private lineEnds: number[] = [];
  private accepted = 0;
  private written = 0;
  /** Lines dropped for lack of space and not yet reported. */
  private lost = 0;
  private retries = true;

  constructor(fd: number, limit: number) {
    this.file = new sonic.SonicBoom({
      fd,
      sync: false,
      // A buffer's length is known; of strings sonic-boom would measure the whole queue with each line.
      contentMode: "buffer",
      minLength: MIN_WRITE,
      maxWrite: 2 * MIN_WRITE,
      maxLength: limit,
      periodicFlush: FLUSH_INTERVAL,
      retryEAGAIN: () => this.retries,
    });
    this.file.on("write", (bytes: number) => (this.written += bytes));
    this.file.on("drop", () => this.lost++);
    this.file.on("drain", () => this.onDrain());
    // The reader has left, or the disk is full: sonic-boom keeps its queue and retries with the next lines.
    this.file.on("error", () => {});
    process.once("exit", () => this.flushOnExit());
  }

  /** @param line with its newline, and no other */
  writeLine(line: string): void {
    const bytes = Buffer.from(line);
    if (!this.write(bytes)) return;
    this.accepted += bytes.length;
    this.lineEnds.push(this.accepted);
  }

  /** @param lines each with its newline */
  writeLines(lines: Buffer): void {
    const taken = this.write(lines);
    // sonic-boom reports a drop once, however many lines it contains.
    if (!taken) this.lost--;
    for (let end = lines.indexOf(LF); end >= 0; end = lines.indexOf(LF, end + 1))
      if (taken) this.lineEnds.push(this.accepted + end + 1);
      else this.lost++;
    if (taken) this.accepted += lines.length;
  }

  /** Returns whether the bytes have been taken; `lost` counts those that have not. */
  private write(bytes: Buffer): boolean {
    const { lost } = this;
    this.file.write(bytes);
    return this.lost === lost;
  }

  /** Resolves when everything is written, or after FLUSH_TIMEOUT; lines that the reader has not taken by then are given up. */
  async flush(): Promise<void> {
    const limit = Promise.withResolvers<void>();
    const timer = setTimeout(limit.resolve, FLUSH_TIMEOUT);
    // The first flush may end with a write that was in progress, and leave later lines to the second.
    await Promise.race([this.flushOnce().then(() => this.flushOnce()), limit.promise]);
    clearTimeout(timer);
    this.reportLost();
  }

  async close(): Promise<void> {
    await this.flush();
    this.retries = false;
    const closed = new Promise((done) => this.file.once("close", done));
    this.file.end();
    await closed;
  }

  private flushOnce(): Promise<void> {
    // Errors are ignored, as a pipe cannot be synced; only the count of written bytes matters.
    return new Promise((done) => this.file.flush(() => done()));
  }

  private onDrain(): void {
    const first = this.lineEnds.findIndex((end) => end > this.written);
    this.lineEnds = first < 0 ? [] : this.lineEnds.slice(first);
    const { lost } = this;
    this.lost = 0;
    if (lost > 0) this.writeLine(lostLine(lost));
  }

  /** Writes to standard error how many lines were not read, including a partly read one. */
  private reportLost(): void {
    const lost = this.lost + this.lineEnds.filter((end) => end > this.written).length;
    this.lost = 0;
    this.lineEnds = [];
    if (lost === 0) return;
    this.retries = false;
    process.stderr.write(lostLine(lost));
  }

  /** Writes the last lines of a process that exits without a flush. */
  private flushOnExit(): void {
    if (!this.retries) return;
    this.retries = false;
    try {
      this.file.flushSync();
    } catch {
      // Nothing is left to report it to.
    }
  }
}

const lostLine = (lost: number): string => `${JSON.stringify({ level: 50, msg: "log lines were lost", lost })}\n`;
