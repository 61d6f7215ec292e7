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
  private readonly lines: Logger;

  /** @param fd where lines go; 1 is the standard output. */
  constructor(fd = 1) {
    super();
    this.lines = pino(
      { base: null, timestamp: pino.stdTimeFunctions.isoTime },
      pino.destination({ fd, sync: false, minLength: 16_000, periodicFlush: 100 }),
    );
  }

  /** The least serious lines that are written. */
  set level(level: string) {
    this.lines.level = level;
  }

  debug(fields: object, message: string): void {
    this.lines.debug(fields, message);
  }

  info(fields: object, message: string): void {
    this.lines.info(fields, message);
  }

  warn(fields: object, message: string): void {
    this.lines.warn(fields, message);
  }

  error(fields: object, message: string): void {
    this.lines.error(fields, message);
  }

  flush(): Promise<void> {
    return new Promise((done) => this.lines.flush(() => done()));
  }
}
