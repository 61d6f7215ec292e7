import { type FileHandle, open } from "node:fs/promises";
import { type DoneExchange, Options, type Plugin } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Writes a line to a file for each request: time, caller, model, outcome. */
@injectable()
export default class RequestLog implements Plugin {
  static options = z.strictObject({ file: z.string() });

  private file: FileHandle | undefined;

  constructor(@inject(Options) private readonly options: z.infer<typeof RequestLog.options>) {}

  /** `npm start -- check` detects a file that cannot be written, and does not create one. */
  async start({ dry }: { dry: boolean }): Promise<void> {
    if (dry) return (await open(this.options.file, "r+").catch(ignoreMissing))?.close();
    this.file = await open(this.options.file, "a");
  }

  /** The gateway logs a failure, as on a full disk, and counts it. */
  async done({ time, caller, model, status, outcome }: DoneExchange): Promise<void> {
    const line = { time: new Date(time).toISOString(), key: caller?.id, model: model?.id, status, outcome };
    await this.file?.appendFile(`${JSON.stringify(line)}\n`);
  }

  async close(): Promise<void> {
    await this.file?.close();
  }
}

/** A missing file is created by the first start. */
function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}
