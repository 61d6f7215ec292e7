import { hostname } from "node:os";
import { starSecrets } from "./config/secrets.ts";
import type { Config } from "./config/types.ts";
import { formatAddress } from "./config/units.ts";
import type { Log } from "./core/log.ts";
import { configHash } from "./metrics/process-metrics.ts";
import type { Audit, Author } from "./store/audit.ts";
import { formatError } from "./text/format-error.ts";

/** Who requests an action of the gateway, and additional details for the audit trail. */
export interface Initiator extends Author {
  readonly detail?: Readonly<Record<string, string>>;
}

/** The program that this gateway is part of. */
export const PROGRAM: Initiator = { who: "program", address: hostname() };

/** Entries that are searched for the last one that names the served file. */
const SEARCHED_ENTRIES = 1000;

/** The gateway.yaml that is served, and where: gateways that share a database may each have their own. */
export interface ServedFile {
  readonly host: string;
  /** The address for clients, which distinguishes the gateways of a host. */
  readonly listen: string;
  readonly file: string;
  /** The hash of its text alone, which `sha256sum` prints too: without plugin code, and the values of `$NAME` and `$file:`. */
  readonly file_hash: string;
}

/** Returns the trail's details of the served file. */
export const servedFile = ({ file, text, listen }: Pick<Config, "file" | "text" | "listen">): ServedFile => ({
  host: hostname(),
  listen: formatAddress(listen),
  file,
  file_hash: configHash(text),
});

/** Maximum characters of a problem: a file may have many mistakes. */
const MAX_PROBLEM = 1000;

/**
 * Records actions of the gateway itself in the audit trail. They have been done by then, and are not undone if the trail cannot
 * be written: the log records the gap.
 */
export class AuditTrail {
  /** @param secrets texts that must not be recorded, whatever an error message quotes */
  constructor(
    private readonly log: Log,
    private readonly audit: () => Audit,
    private readonly secrets: () => readonly string[],
  ) {}

  /** Records an action. Never throws. */
  async recordAction(
    { who, address, detail }: Initiator,
    action: string,
    subject: string,
    outcome: object,
  ): Promise<void> {
    try {
      await this.audit().add({ time: Date.now(), who, address, action, subject, detail: { ...outcome, ...detail } });
    } catch (thrown) {
      this.log.error(
        { who, action, cause: formatError(thrown) },
        "the audit trail cannot be written: this action is missing in it",
      );
    }
  }

  /**
   * Records a start, and whether the text of gateway.yaml differs from that of the last start or reload on this host. Never
   * throws.
   */
  async recordStart(by: Initiator, version: string, served: ServedFile): Promise<void> {
    const { file_hash } = served;
    const before = await this.lastHash(served).catch(() => undefined);
    const file_changed = before !== undefined && before !== file_hash;
    if (file_changed) this.log.info({ file_hash, before }, "gateway.yaml has changed since the last start or reload");
    const compared = before === undefined ? {} : { file_changed, ...(file_changed && { before }) };
    await this.recordAction(by, "start", "gateway.yaml", { version, ...served, ...compared });
  }

  /** Returns the hash of the same file on the same host when it was last served. */
  private async lastHash({ host, file }: ServedFile): Promise<string | undefined> {
    for (const { detail } of await this.audit().list(SEARCHED_ENTRIES))
      if (detail["host"] === host && detail["file"] === file && typeof detail["file_hash"] === "string")
        return detail["file_hash"];
    return undefined;
  }

  /** Records a failed action. Never throws. */
  recordFailure(by: Initiator, action: string, subject: string, problem: string): Promise<void> {
    return this.recordAction(by, action, subject, {
      problem: starSecrets(problem, this.secrets()).slice(0, MAX_PROBLEM),
    });
  }
}
