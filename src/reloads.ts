import { statSync } from "node:fs";
import { resolve } from "node:path";
import { type AuditTrail, type Initiator, PROGRAM, type ServedFile } from "./audit-trail.ts";
import type { Change } from "./config/changes.ts";
import type { Config } from "./config/types.ts";
import type { Log } from "./core/log.ts";
import { ownPluginFiles } from "./loader/discover.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import { codeFiles } from "./loader/versions.ts";
import { FormattedError, formatError } from "./text/format-error.ts";

export interface ReloadResult {
  readonly changes: readonly Change[];
  /** Sections whose changes take effect only at the next start. */
  readonly restart: readonly string[];
  /** Warnings that the former configuration did not have, such as providers that are off now. */
  readonly notices: readonly string[];
  /** The number of the generation that serves from now on. */
  readonly generation: number;
}

/** The outcome of the last reload. */
interface ReloadState {
  /** Unix milliseconds. */
  readonly time: number;
  /** The error; absent: it succeeded. */
  readonly problem?: string;
}

/** Why a reload is refused during a stop. */
export const STOPPING = "the gateway is stopping";
/** Action and subject in the audit trail. */
const RELOAD_ACTION = ["reload", "gateway.yaml"] as const;
/** Maximum changes named in a log line and in the audit trail. */
const MAX_LOGGED = 30;
const MAX_RECORDED = 100;
/** Maximum characters of a value in the audit trail. */
const MAX_VALUE_LENGTH = 200;

/** Runs reloads one at a time, records each in the log and in the audit trail, and keeps the outcome of the last one. */
export class Reloads {
  succeeded = 0;
  failed = 0;
  last: ReloadState | undefined;
  /** Called for each failure. */
  onFailure: (problem: string) => void = () => {};
  private queue: Promise<unknown> = Promise.resolve();
  private ended = false;

  /** @param served returns the gateway.yaml that is served */
  constructor(
    private readonly log: Log,
    private readonly act: () => Promise<ReloadResult>,
    private readonly trail: AuditTrail,
    private readonly served: () => ServedFile,
  ) {}

  /**
   * Runs a reload.
   * @param by who requests it
   * @throws the problem with the new configuration: nothing has changed then
   */
  run(by = PROGRAM): Promise<ReloadResult> {
    return this.enqueue(() => this.runOne(by));
  }

  /** Runs `work` after the reloads requested so far, and before later ones. */
  enqueue<T>(work: () => Promise<T>): Promise<T> {
    const done = this.queue.then(work);
    this.queue = done.catch(() => {});
    return done;
  }

  /** Refuses reloads from now on, as the gateway stops; a running one completes. */
  end(): void {
    this.ended = true;
  }

  /** Waits until no reload runs. */
  async whenIdle(): Promise<void> {
    await this.queue;
  }

  private async runOne(by: Initiator): Promise<ReloadResult> {
    try {
      if (this.ended) throw new FormattedError(STOPPING);
      const reloaded = await this.act();
      this.succeeded++;
      this.last = { time: Date.now() };
      const { changes, restart, notices, generation } = reloaded;
      const [{ who }, paths] = [by, changes.map(({ path }) => path)];
      if (changes.length === 0) this.log.info({ generation, who }, "reload: nothing has changed");
      else this.log.info({ generation, who, changes: paths.slice(0, MAX_LOGGED) }, "the configuration was reloaded");
      if (restart.length > 0) this.log.warn({ restart }, "reload: this takes effect at the next start");
      if (notices.length > 0) this.log.warn({ notices }, "reload: check the new configuration");
      await this.trail.recordAction(by, ...RELOAD_ACTION, {
        ...{ generation, ...this.served() },
        changes: changes.slice(0, MAX_RECORDED).map(shortenChange),
      });
      return reloaded;
    } catch (thrown) {
      const problem = formatError(thrown);
      this.failed++;
      this.last = { time: Date.now(), problem };
      this.log.error({ problem, who: by.who }, "the configuration was not reloaded, and nothing has changed");
      this.onFailure(problem);
      await this.trail.recordFailure(by, ...RELOAD_ACTION, problem);
      throw thrown;
    }
  }
}

/** Returns a change with its values cut to what the trail keeps permanently. */
function shortenChange({ path, before, after }: Change): Change {
  const short = (value: string) => (value.length > MAX_VALUE_LENGTH ? `${value.slice(0, MAX_VALUE_LENGTH)}…` : value);
  return {
    path,
    ...(before !== undefined && { before: short(before) }),
    ...(after !== undefined && { after: short(after) }),
  };
}

/** Milliseconds between two checks of files. */
const CHECK_INTERVAL = 1000;

/**
 * Calls `changed` when files have changed, and are the same at the next check: an editor may write in several steps. Files are
 * checked by name, so that replaced files and symbolic links, as in Kubernetes, are noticed on every file system.
 * @param files called at each check
 */
export class FileWatch {
  private readonly timer: NodeJS.Timeout;
  private lastSnapshot: string;
  private reportedSnapshot: string;

  constructor(
    private readonly files: () => readonly string[],
    private readonly changed: () => void,
    every = CHECK_INTERVAL,
  ) {
    this.lastSnapshot = this.reportedSnapshot = this.snapshot();
    this.timer = setInterval(() => this.check(), every).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private check(): void {
    const now = this.snapshot();
    const still = now === this.lastSnapshot;
    this.lastSnapshot = now;
    if (!still || now === this.reportedSnapshot) return;
    this.changed();
    this.reportedSnapshot = now;
  }

  private snapshot(): string {
    return this.files().map(fileState).join("\n");
  }
}

/** Never throws: the check runs in a timer, where that would end the process. */
function fileState(file: string): string {
  try {
    const { ino, size, mtimeMs } = statSync(file);
    return `${file} ${ino} ${size} ${mtimeMs}`;
  } catch (thrown) {
    return `${file} ${(thrown as NodeJS.ErrnoException).code}`;
  }
}

/** Returns the files of a configuration: gateway.yaml, plugin code, also of plugins that it does not use yet, and secrets. */
export function configSources({ file, folder, text }: Config, plugins: ReadonlyMap<string, LoadedPlugin>): string[] {
  const secrets = [...text.matchAll(/\$file:([^\s"',}\]]+)/g)].map(([, path = ""]) => resolve(folder, path));
  const code = [...plugins.values()].flatMap((plugin) => [plugin.file, ...codeFiles(plugin.file)]);
  return [...new Set([file, ...secrets, ...code, ...ownPluginFiles(folder)])];
}
