import { hostname } from "node:os";
import { hide } from "./config/secrets.ts";
import type { Config } from "./config/types.ts";
import type { Log } from "./core/log.ts";
import { hashOf } from "./metrics/process-metrics.ts";
import type { Audit, Author } from "./store/audit.ts";
import { reason } from "./text/reason.ts";

/** Who has the gateway do something, and what else the audit trail is to say of that. */
export interface Initiator extends Author {
  readonly detail?: Readonly<Record<string, string>>;
}

/** The program that this gateway is part of. */
export const PROGRAM: Initiator = { who: "program", address: hostname() };

/** Entries that are looked through for the last one that says what was served. */
const LOOKED_THROUGH = 1000;

/** Which gateway.yaml is served, and where: gateways of one database may each have their own. */
export interface ServedFile {
  readonly host: string;
  readonly file: string;
  /** Of its text alone, as `gateway_config_info` has it: not of plugins' code, nor of what `$NAME` and `$file:` stand for. */
  readonly file_hash: string;
}

/** What the trail says of the file that is served. */
export const servedFile = ({ file, text }: Pick<Config, "file" | "text">): ServedFile => ({
  host: hostname(),
  file,
  file_hash: hashOf(text),
});

/** Characters of what was wrong: a file may have many mistakes. */
const TOLD = 1000;

/**
 * Puts into the audit trail what the gateway itself does when it is told to. That is done then, and stays so where the trail
 * cannot be written: the log says that it has a hole.
 */
export class Trail {
  /** @param secrets what must not stand there, whatever a mistake quotes */
  constructor(
    private readonly log: Log,
    private readonly audit: () => Audit,
    private readonly secrets: () => readonly string[],
  ) {}

  /** Something was done. Never throws. */
  async done({ who, address, detail }: Initiator, action: string, subject: string, outcome: object): Promise<void> {
    try {
      await this.audit().add({ time: Date.now(), who, address, action, subject, detail: { ...outcome, ...detail } });
    } catch (thrown) {
      this.log.error({ who, action, cause: reason(thrown) }, "the audit trail cannot be written: this is not in it");
    }
  }

  /** A start, and whether the text of gateway.yaml is another than at the last start or reload there. Never throws. */
  async started(by: Initiator, version: string, served: ServedFile): Promise<void> {
    const { file_hash } = served;
    const before = await this.lastHash(served).catch(() => undefined);
    const file_changed = before !== undefined && before !== file_hash;
    if (file_changed) this.log.info({ file_hash, before }, "gateway.yaml is another than at the last start or reload");
    const compared = before === undefined ? {} : { file_changed, ...(file_changed && { before }) };
    await this.done(by, "start", "gateway.yaml", { version, ...served, ...compared });
  }

  /** What the same file of the same machine was when it was last served. */
  private async lastHash({ host, file }: ServedFile): Promise<string | undefined> {
    for (const { detail } of await this.audit().list(LOOKED_THROUGH))
      if (detail["host"] === host && detail["file"] === file && typeof detail["file_hash"] === "string")
        return detail["file_hash"];
    return undefined;
  }

  /** Something was tried. Never throws. */
  failed(by: Initiator, action: string, subject: string, problem: string): Promise<void> {
    return this.done(by, action, subject, { problem: hide(problem, this.secrets()).slice(0, TOLD) });
  }
}
