import { hostname } from "node:os";
import { reason } from "./cli/reason.ts";
import { hide } from "./config/secrets.ts";
import type { Log } from "./core/log.ts";
import type { Audit, Author } from "./store/audit.ts";

/** Who has the gateway do something, and what else the audit trail is to say of that. */
export interface Initiator extends Author {
  readonly detail?: Readonly<Record<string, string>>;
}

/** The program that this gateway is part of. */
export const PROGRAM: Initiator = { who: "program", address: hostname() };

/** Entries that are looked through for the last one that says what was served. */
const LOOKED_THROUGH = 1000;

/** What a gateway starts with. */
export interface StartFacts {
  readonly version: string;
  readonly file: string;
  /** What names the gateway.yaml, as `gateway_config_info` does. */
  readonly hash: string;
}

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

  /** A start, and whether gateway.yaml is another than that of the last start or reload. Never throws. */
  async started(by: Initiator, start: StartFacts): Promise<void> {
    const { hash } = start;
    const before = await this.lastHash().catch(() => undefined);
    const changed = before !== undefined && before !== hash;
    if (changed) this.log.info({ hash, before }, "gateway.yaml is another than at the last start or reload");
    const compared = before === undefined ? {} : { changed, ...(changed && { before }) };
    await this.done(by, "start", "gateway.yaml", { ...start, ...compared });
  }

  private async lastHash(): Promise<string | undefined> {
    for (const { detail } of await this.audit().list(LOOKED_THROUGH))
      if (typeof detail["hash"] === "string") return detail["hash"];
    return undefined;
  }

  /** Something was tried. Never throws. */
  failed(by: Initiator, action: string, subject: string, problem: string): Promise<void> {
    return this.done(by, action, subject, { problem: hide(problem, this.secrets()).slice(0, TOLD) });
  }
}
