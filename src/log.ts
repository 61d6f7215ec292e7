import { write, writeSync } from "node:fs";
import pino, { type Logger } from "pino";

/** The gateway's log. Never give it headers, bodies or credentials. */
export abstract class Log {
  abstract debug(fields: object, message: string): void;
  abstract info(fields: object, message: string): void;
  abstract warn(fields: object, message: string): void;
  abstract error(fields: object, message: string): void;
  /** Waits until what was logged is written. */
  abstract flush(): Promise<void>;
}

/** JSON lines on a file descriptor, written in the background. */
export class PinoLog extends Log {
  private readonly lines: Lines;
  private readonly logger: Logger;
  /** The last line's second, and how it is written, up to its point. */
  private second = -1;
  private time = "";

  /** @param fd where lines go; 1 is the standard output. */
  constructor(fd = 1) {
    super();
    this.lines = new Lines(fd);
    this.logger = pino({ base: null, timestamp: pino.stdTimeFunctions.isoTime }, this.lines);
  }

  /** The least serious lines that are written. */
  set level(level: string) {
    this.logger.level = level;
  }

  debug(fields: object, message: string): void {
    this.logger.debug(fields, message);
  }

  /** Written by the engine's own serializer: there is one such line for each exchange, and it costs a third of pino's. */
  info(fields: object, message: string): void {
    if (!this.logger.isLevelEnabled("info")) return;
    const text = JSON.stringify(fields);
    const members = text === "{}" ? "" : `${text.slice(1, -1)},`;
    this.lines.write(`{"level":30,"time":"${this.now()}",${members}"msg":${JSON.stringify(message)}}\n`);
  }

  warn(fields: object, message: string): void {
    this.logger.warn(fields, message);
  }

  error(fields: object, message: string): void {
    this.logger.error(fields, message);
  }

  flush(): Promise<void> {
    return this.lines.flush();
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

/** Characters that are written in one go, and milliseconds that a line waits for others at most. */
const BATCH = 16 * 1024;
const DELAY = 100;
/** Characters that may wait for a reader that has stopped reading; what comes then is lost, and counted. */
const LIMIT = 16 * 1024 * 1024;

/** Gathers lines and writes them in the background: a slow or stuck reader never holds the gateway up. */
class Lines {
  private waiting: string[] = [];
  private size = 0;
  private lost = 0;
  private timer: NodeJS.Timeout | undefined;
  private writing: Promise<void> | undefined;

  constructor(private readonly fd: number) {
    process.once("exit", () => this.rescue());
  }

  write(line: string): void {
    if (this.size > LIMIT) {
      this.lost++;
      return;
    }
    this.waiting.push(line);
    this.size += line.length;
    if (this.size >= BATCH) this.begin();
    else this.timer ??= setTimeout(() => this.begin(), DELAY).unref();
  }

  async flush(): Promise<void> {
    while (this.writing || this.waiting.length > 0) await this.begin();
  }

  private begin(): Promise<void> {
    this.writing ??= this.drain();
    return this.writing;
  }

  private async drain(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    const bytes = this.take();
    for (let at = 0; at < bytes.length; ) at += await put(this.fd, bytes, at);
    this.writing = undefined;
    // Their timer may have fired meanwhile, in vain.
    if (this.waiting.length > 0) this.begin();
  }

  private take(): Buffer {
    const lost = this.lost > 0 ? `${JSON.stringify({ level: 50, msg: "log lines were lost", lost: this.lost })}\n` : "";
    const text = this.waiting.join("") + lost;
    this.waiting = [];
    this.size = 0;
    this.lost = 0;
    return Buffer.from(text);
  }

  /** The last lines of a process that ends without having waited for them. */
  private rescue(): void {
    try {
      if (this.waiting.length > 0) writeSync(this.fd, this.take());
    } catch {
      // Nobody is left to be told.
    }
  }
}

/** Bytes written; a full pipe is tried again, one that nobody reads any more takes everything. */
function put(fd: number, bytes: Buffer, from: number): Promise<number> {
  return new Promise((done) => {
    write(fd, bytes, from, (error, written) => {
      if (!error) done(written);
      else if (error.code === "EAGAIN") setTimeout(done, 10, 0);
      else done(bytes.length);
    });
  });
}
