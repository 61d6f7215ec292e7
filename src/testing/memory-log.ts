import { Log } from "../core/log.ts";

/** A line of the gateway's log. */
export interface LogLine {
  level: "debug" | "info" | "warn" | "error";
  message: string;
  fields: Record<string, unknown>;
}

/** Keeps log lines in memory. */
export class MemoryLog extends Log {
  readonly lines: LogLine[] = [];

  debug(fields: object, message: string): void {
    this.keep("debug", fields, message);
  }

  info(fields: object, message: string): void {
    this.keep("info", fields, message);
  }

  warn(fields: object, message: string): void {
    this.keep("warn", fields, message);
  }

  error(fields: object, message: string): void {
    this.keep("error", fields, message);
  }

  async flush(): Promise<void> {}

  private keep(level: LogLine["level"], fields: object, message: string): void {
    this.lines.push({ level, message, fields: { ...fields } });
  }
}
