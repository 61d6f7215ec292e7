import type { Config } from "../config/types.ts";
import type { Question } from "../core/peers.ts";
import type { Reloaded, Reloads } from "../reloads.ts";
import type { Unwritten } from "../store/ledger.ts";
import type { Stores } from "../store/open.ts";
import type { Initiator } from "../trail.ts";
import type { Readiness } from "./readiness.ts";

/** How the workers of a primary do. */
export interface WorkerCounts {
  readonly wanted: number;
  /** Those that serve. */
  readonly up: number;
  /** Since the start: ends that nobody wanted. */
  readonly deaths: number;
}

/** What the admin side is for: a gateway in this process, or a primary with its workers. */
export interface AdminSubject {
  readonly config: Config;
  readonly reloads: Reloads;
  readonly stores: Stores;
  /** Absent where this process serves by itself. */
  readonly workerCounts?: WorkerCounts;
  /** What would be lost if all processes that serve were killed now. */
  readonly unwritten: Unwritten | undefined;
  readiness(): Readiness;
  reload(by: Initiator): Promise<Reloaded>;
  compare(): Promise<Pick<Reloaded, "changes" | "restart">>;
  /** Switches a provider or a target off, or on again, until this ends. @param name of either */
  switch(name: string, off: boolean): void;
  /** One answer of each process that serves; of one that has died meanwhile there is none. */
  askAll<Ask, Answer>(question: Question<Ask, Answer>, asked: Ask): Promise<Answer[]>;
}
