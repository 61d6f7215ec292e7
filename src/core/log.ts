import { write, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import pino, { type Logger } from "pino";

/** The gateway's log. Never give it headers, bodies or credentials. */
export abstract class Log {
  abstract debug(fields: object, message: string): void;
  abstract info(fields: object, message: string): void;
  abstract warn(fields: object, message: string): void;
  abstract error(fields: object, message: string): void;
  /** Waits until what was logged is written: not for ever, as nobody may be reading it. */
  abstract flush(): Promise<void>;
}

/** JSON lines on a file descriptor, written in the background. */
export class PinoLog extends Log {
  private readonly lines: Lines;
  private readonly logger: Logger;
  /** The last line's second, and how it is written, up to its point. */
  private second = -1;
  private time = "";

  /**
   * @param fd where lines go; the standard output unless told otherwise. It may not block: a write that waits for a reader
   * holds a thread, without whose end a process cannot exit. Node sees to that when it opens its standard output.
   */
  constructor(fd: number = process.stdout.fd) {
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
const BATCH = 64 * 1024;
const DELAY = 100;
/** Characters that may wait for a reader that has stopped reading; what comes then is lost, and counted. */
const LIMIT = 16 * 1024 * 1024;
/** Milliseconds that a full pipe is given before it is tried again, and in all when the process wants to end. */
const AGAIN = 10;
const PATIENCE = 1000;
const LF = 10;

/** Gathers lines and writes them in the background: a slow or stuck reader never holds the gateway up. */
class Lines {
  private waiting: string[] = [];
  private size = 0;
  private lost = 0;
  /** What is being written, and how far it is. */
  private bytes: Buffer = Buffer.alloc(0);
  private at = 0;
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
    this.schedule();
  }

  /** Writes at once what is worth a write of its own, and the rest a little later. */
  private schedule(): void {
    if (this.writing) return;
    if (this.size >= BATCH) this.begin();
    else this.timer ??= setTimeout(() => this.begin(), DELAY).unref();
  }

  /** Settles when all is written, or when a reader has had its time; what it has not taken by then is given up. */
  async flush(): Promise<void> {
    const limit = Promise.withResolvers<void>();
    const timer = setTimeout(limit.resolve, PATIENCE);
    await Promise.race([this.emptied(), limit.promise]);
    clearTimeout(timer);
    this.giveUp();
  }

  private async emptied(): Promise<void> {
    while (this.writing || this.waiting.length > 0) await this.begin();
  }

  private begin(): Promise<void> {
    this.writing ??= this.drain();
    return this.writing;
  }

  private async drain(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.bytes = this.take();
    this.at = 0;
    while (this.at < this.bytes.length) {
      const written = await put(this.fd, this.bytes, this.at);
      if (written === 0) await sleep(AGAIN);
      this.at += written;
    }
    this.writing = undefined;
    if (this.waiting.length > 0) this.schedule();
  }

  private take(): Buffer {
    const text = this.waiting.join("") + (this.lost > 0 ? lostLine(this.lost) : "");
    this.waiting = [];
    this.size = 0;
    this.lost = 0;
    return Buffer.from(text);
  }

  /** Says on the standard error how many lines nobody took; one that was taken in part counts. */
  private giveUp(): void {
    let lost = this.lost + this.waiting.length;
    for (let at = this.at; at < this.bytes.length; at++) if (this.bytes[at] === LF) lost++;
    if (lost === 0) return;
    this.take();
    this.at = this.bytes.length;
    process.stderr.write(lostLine(lost));
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

const lostLine = (lost: number): string => `${JSON.stringify({ level: 50, msg: "log lines were lost", lost })}\n`;

/** Bytes written: none where a pipe is full, all where nobody reads it any more. */
function put(fd: number, bytes: Buffer, from: number): Promise<number> {
  return new Promise((done) => {
    write(fd, bytes, from, (error, written) => {
      if (!error) done(written);
      else done(error.code === "EAGAIN" ? 0 : bytes.length);
    });
  });
}
