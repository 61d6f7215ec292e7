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

  /** Something was tried. Never throws. */
  failed(by: Initiator, action: string, subject: string, problem: string): Promise<void> {
    return this.done(by, action, subject, { problem: hide(problem, this.secrets()).slice(0, TOLD) });
  }
}
