import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { Change } from "./config/changes.ts";
import type { Config } from "./config/types.ts";
import type { Log } from "./core/log.ts";
import type { LoadedPlugin } from "./loader/instances.ts";
import { filesOf } from "./loader/versions.ts";
import { reason } from "./text/reason.ts";
import { type Initiator, PROGRAM, type ServedFile, type Trail } from "./trail.ts";

/** What a reload changed. */
export interface Reloaded {
  readonly changes: readonly Change[];
  /** Sections that differ from what runs until the next start. */
  readonly restart: readonly string[];
  /** The number of the generation that serves from now on. */
  readonly generation: number;
}

/** How the last reload ended. */
interface ReloadState {
  /** Unix milliseconds. */
  readonly time: number;
  /** What was wrong; absent: it succeeded. */
  readonly problem?: string;
}

/** What is done, and to what. */
const RELOAD = ["reload", "gateway.yaml"] as const;
/** Names of what has changed, in a log line and in the audit trail. */
const LOGGED = 30;
const KEPT = 100;
/** Characters of a value in the audit trail. */
const LONGEST = 200;

/** Reloads one at a time, tells of each in the log and in the audit trail, and remembers how the last one ended. */
export class Reloads {
  succeeded = 0;
  failed = 0;
  last: ReloadState | undefined;
  /** Told of each failure. */
  onFailure: (problem: string) => void = () => {};
  private queue: Promise<unknown> = Promise.resolve();

  /** @param served the gateway.yaml that is served */
  constructor(
    private readonly log: Log,
    private readonly act: () => Promise<Reloaded>,
    private readonly trail: Trail,
    private readonly served: () => ServedFile,
  ) {}

  /**
   * @param by who wants it
   * @throws what is wrong with the new configuration: nothing has changed then
   */
  run(by = PROGRAM): Promise<Reloaded> {
    const done = this.queue.then(() => this.one(by));
    this.queue = done.catch(() => {});
    return done;
  }

  /** Until none runs. */
  async settled(): Promise<void> {
    await this.queue;
  }

  private async one(by: Initiator): Promise<Reloaded> {
    try {
      const reloaded = await this.act();
      this.succeeded++;
      this.last = { time: Date.now() };
      const { changes, restart, generation } = reloaded;
      const [{ who }, paths] = [by, changes.map(({ path }) => path)];
      if (changes.length === 0) this.log.info({ generation, who }, "reload: nothing has changed");
      else this.log.info({ generation, who, changes: paths.slice(0, LOGGED) }, "the configuration was reloaded");
      if (restart.length > 0) this.log.warn({ restart }, "reload: this takes effect at the next start");
      await this.trail.done(by, ...RELOAD, {
        ...{ generation, ...this.served() },
        changes: changes.slice(0, KEPT).map(shortened),
      });
      return reloaded;
    } catch (thrown) {
      const problem = reason(thrown);
      this.failed++;
      this.last = { time: Date.now(), problem };
      this.log.error({ problem, who: by.who }, "the configuration was not reloaded, and nothing has changed");
      this.onFailure(problem);
      await this.trail.failed(by, ...RELOAD, problem);
      throw thrown;
    }
  }
}

/** A change, with no more of its values than a trail has to keep for good. */
function shortened({ path, before, after }: Change): Change {
  const short = (value: string) => (value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value);
  return {
    path,
    ...(before !== undefined && { before: short(before) }),
    ...(after !== undefined && { after: short(after) }),
  };
}

/** Milliseconds between two looks at files. */
const LOOK = 1000;

/**
 * Calls `changed` when files have changed, and stay so for one look: an editor may write in several steps. Files are looked
 * at by name, so that those which are replaced, or are links to others as in Kubernetes, are noticed on every file system.
 * @param files asked at each look
 */
export class FileWatch {
  private readonly timer: NodeJS.Timeout;
  private seen: string;
  private acted: string;

  constructor(
    private readonly files: () => readonly string[],
    private readonly changed: () => void,
    every = LOOK,
  ) {
    this.seen = this.acted = this.look();
    this.timer = setInterval(() => this.check(), every).unref();
  }

  close(): void {
    clearInterval(this.timer);
  }

  private check(): void {
    const now = this.look();
    const still = now === this.seen;
    this.seen = now;
    if (!still || now === this.acted) return;
    this.changed();
    this.acted = now;
  }

  private look(): string {
    return this.files().map(stateOf).join("\n");
  }
}

function stateOf(file: string): string {
  const found = statSync(file, { throwIfNoEntry: false });
  return found ? `${file} ${found.ino} ${found.size} ${found.mtimeMs}` : file;
}

/** The files that a configuration is made of: gateway.yaml, plugins' code and secrets. */
export function sourcesOf({ file, folder, text }: Config, plugins: ReadonlyMap<string, LoadedPlugin>): string[] {
  const secrets = [...text.matchAll(/\$file:([^\s"',}\]]+)/g)].map(([, path = ""]) => resolve(folder, path));
  const code = [...plugins.values()].flatMap((plugin) => [plugin.file, ...filesOf(plugin.file)]);
  return [...new Set([file, ...secrets, ...code])];
}
