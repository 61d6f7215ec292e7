import { createWriteStream, type WriteStream } from "node:fs";
import { open } from "node:fs/promises";
import { type DoneExchange, Options, type Plugin } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Writes a line to a file for each request: time, caller, model, outcome. */
@injectable()
export default class RequestLog implements Plugin {
  static options = z.strictObject({ file: z.string() });

  private lines: WriteStream | undefined;

  constructor(@inject(Options) private readonly options: z.infer<typeof RequestLog.options>) {}

  /** `npm start -- check` detects a file that cannot be written, and does not create one. */
  async start({ dry }: { dry: boolean }): Promise<void> {
    if (dry) return (await open(this.options.file, "r+").catch(ignoreMissing))?.close();
    const file = await open(this.options.file, "a");
    this.lines = createWriteStream("", { fd: file });
  }

  done({ time, caller, model, status, outcome }: DoneExchange): void {
    const line = { time: new Date(time).toISOString(), key: caller?.id, model: model?.id, status, outcome };
    this.lines?.write(`${JSON.stringify(line)}\n`);
  }

  close(): Promise<void> {
    return new Promise((closed) => (this.lines ? this.lines.end(closed) : closed()));
  }
}

/** A missing file is created by the first start. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}
