import sonic, { type SonicBoom } from "sonic-boom";
import { isPlain, jsonString } from "../wire/json-string.ts";

/** The gateway's log. Never give it headers, bodies or credentials. */
export abstract class Log {
  abstract debug(fields: object, message: string): void;
  abstract info(fields: object, message: string): void;
  abstract warn(fields: object, message: string): void;
  abstract error(fields: object, message: string): void;
  /** Waits until what was logged is written: not for ever, as nobody may be reading it. */
  abstract flush(): Promise<void>;
  /** The least serious lines that are written. */
  set level(_level: string) {}
}

/** What pino calls them, whose form of lines log readers know. */
const LEVELS: Readonly<Record<string, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50, fatal: 60 };

/** JSON lines on a file descriptor, written in the background. */
export class JsonLog extends Log {
  private readonly lines: Lines;
  /** The least level that is written. */
  private least = 30;
  /** The last line's second, and how it is written, up to its point. */
  private second = -1;
  private time = "";

  /**
   * @param fd where lines go; the standard output unless told otherwise. It may not block: a write that waits for a reader
   * holds a thread, without whose end a process cannot exit. Node sees to that when it opens its standard output.
   * @param limit bytes that may wait for a reader that has stopped reading; what comes then is lost, and counted.
   */
  constructor(fd: number = process.stdout.fd, limit: number = LIMIT) {
    super();
    this.lines = new Lines(fd, limit);
  }

  override set level(level: string) {
    this.least = LEVELS[level] ?? Number.POSITIVE_INFINITY;
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

  /** Writes lines that another process has made. */
  relay(lines: Buffer): void {
    this.lines.write(lines);
  }

  flush(): Promise<void> {
    return this.lines.flush();
  }

  /** Flushes, and closes the file descriptor. Nothing can be logged behind it. */
  close(): Promise<void> {
    return this.lines.close();
  }

  private log(level: number, fields: object, message: string): void {
    if (level < this.least) return;
    const head = `{"level":${level},"time":"${this.now()}",`;
    this.lines.write(`${head}${plainMembers(fields) ?? anyMembers(fields)}"msg":${jsonString(message)}}\n`);
  }

  private now(): string {
    const now = Date.now();
    const second = Math.floor(now / 1000);
    if (second !== this.second) {
      this.second = second;
      this.time = new Date(now).toISOString().slice(0, 20);
    }
    return `${this.time}${String(1000 + (now % 1000)).slice(1)}Z`;
  }
}

/**
 * The members as JSON, each with a comma behind it. Put together here, with one look for what must be escaped in all of them,
 * because every exchange has such a line and JSON.stringify takes three times as long. Undefined: that has to do it.
 */
function plainMembers(fields: object & { err?: unknown; toJSON?: unknown }): string | undefined {
  if (fields.err !== undefined || fields.toJSON !== undefined || Object.getPrototypeOf(fields) !== Object.prototype)
    return undefined;
  let texts = "";
  let members = "";
  for (const name in fields) {
    const value: unknown = fields[name as keyof typeof fields];
    if (value === undefined) continue;
    texts += name;
    if (typeof value === "string") {
      texts += value;
      members += `"${name}":"${value}",`;
    } else if (Number.isFinite(value) || typeof value === "boolean") members += `"${name}":${value},`;
    else return undefined;
  }
  return isPlain(texts) ? members : undefined;
}

/** The same of any fields. What a plugin gives may be no JSON: the line says so, instead of a fault where something is only told. */
function anyMembers(fields: object & { err?: unknown }): string {
  const { err } = fields;
  try {
    const text = JSON.stringify(err instanceof Error ? { ...fields, err: told(err) } : fields);
    return text === "{}" ? "" : `${text.slice(1, -1)},`;
  } catch (thrown) {
    return `"unwritten":${JSON.stringify(String(thrown))},`;
  }
}

const told = ({ name: type, message, stack }: Error) => ({ type, message, stack });

const NEWLINE = 10;

/**
 * Bytes that are worth a write of their own, and milliseconds that a line waits for others at most. Each write wakes a thread,
 * which costs more than its bytes do.
 */
const ENOUGH = 64 * 1024;
const DELAY = 100;
/** 60,000 lines or so. */
const LIMIT = 16 * 1024 * 1024;
/** Milliseconds that the reader is given when the process wants to end. */
const PATIENCE = 1000;

declare module "sonic-boom" {
  interface SonicBoom {
    /** With `contentMode: "buffer"`, which its types do not tell. */
    write(line: Buffer): boolean;
  }
}

/** Lines for a sonic-boom, which writes in the background, and a count of those that it could not write. */
class Lines {
  private readonly file: SonicBoom;
  /** Where each line that is not yet known to be written ends, in bytes since the start. */
  private ends: number[] = [];
  private accepted = 0;
  private written = 0;
  /** Lines that found no room, and are still to be told. */
  private lost = 0;
  private patient = true;

  constructor(fd: number, limit: number) {
    this.file = new sonic.SonicBoom({
      fd,
      sync: false,
      // As bytes a line is measured once; as text sonic-boom would measure all that waits with each of them.
      contentMode: "buffer",
      minLength: ENOUGH,
      maxWrite: 2 * ENOUGH,
      maxLength: limit,
      periodicFlush: DELAY,
      retryEAGAIN: () => this.patient,
    });
    this.file.on("write", (bytes: number) => (this.written += bytes));
    this.file.on("drop", () => this.lost++);
    this.file.on("drain", () => this.drained());
    // A reader that has left, a disk that is full: sonic-boom keeps what it has and tries again with the next lines.
    this.file.on("error", () => {});
    process.once("exit", () => this.rescue());
  }

  /** @param lines one or more, each with its end */
  write(lines: string | Buffer): void {
    const bytes = typeof lines === "string" ? Buffer.from(lines) : lines;
    const lost = this.lost;
    this.file.write(bytes);
    const found = this.lost === lost;
    // sonic-boom tells of a loss once, however many lines it was.
    if (!found) this.lost--;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, end + 1))
      if (found) this.ends.push(this.accepted + end + 1);
      else this.lost++;
    if (found) this.accepted += bytes.length;
  }

  /** Settles when all is written, or when a reader has had its time; what it has not taken by then is given up. */
  async flush(): Promise<void> {
    const limit = Promise.withResolvers<void>();
    const timer = setTimeout(limit.resolve, PATIENCE);
    // The first may end with a write that was under way, and leave what came after its start to the second.
    await Promise.race([this.flushed().then(() => this.flushed()), limit.promise]);
    clearTimeout(timer);
    this.giveUp();
  }

  async close(): Promise<void> {
    await this.flush();
    this.patient = false;
    const closed = new Promise((done) => this.file.once("close", done));
    this.file.end();
    await closed;
  }

  private flushed(): Promise<void> {
    // It also tells an error, as that a pipe cannot be synced; what counts here is what was written.
    return new Promise((done) => this.file.flush(() => done()));
  }

  private drained(): void {
    const first = this.ends.findIndex((end) => end > this.written);
    this.ends = first < 0 ? [] : this.ends.slice(first);
    const { lost } = this;
    this.lost = 0;
    if (lost > 0) this.write(lostLine(lost));
  }

  /** Says on the standard error how many lines nobody took; one that was taken in part counts. */
  private giveUp(): void {
    const lost = this.lost + this.ends.filter((end) => end > this.written).length;
    this.lost = 0;
    this.ends = [];
    if (lost === 0) return;
    this.patient = false;
    process.stderr.write(lostLine(lost));
  }

  /** The last lines of a process that ends without having waited for them. */
  private rescue(): void {
    if (!this.patient) return;
    this.patient = false;
    try {
      this.file.flushSync();
    } catch {
      // Nobody is left to be told.
    }
  }
}

const lostLine = (lost: number): string => `${JSON.stringify({ level: 50, msg: "log lines were lost", lost })}\n`;
