import type { Initiator } from "../audit-trail.ts";
import type { Config } from "../config/types.ts";
import type { Question } from "../core/peers.ts";
import type { MetricJson } from "../metrics/families.ts";
import type { ReloadResult, Reloads } from "../reloads.ts";
import type { UnwrittenLines } from "../store/ledger.ts";
import type { Stores } from "../store/open.ts";
import type { Readiness } from "./readiness.ts";

/** The workers of a primary. */
export interface WorkerCounts {
  readonly wanted: number;
  /** Workers that serve. */
  readonly up: number;
  /** Unwanted ends since the start. */
  readonly deaths: number;
}

/** The gateway that an admin side administers: one in this process, or a primary with its workers. */
export interface AdminGateway {
  readonly config: Config;
  readonly reloads: Reloads;
  readonly stores: Stores;
  /** Absent where this process serves by itself. */
  readonly workerCounts?: WorkerCounts;
  /** What would be lost if all serving processes were killed now. */
  readonly unwritten: UnwrittenLines | undefined;
  readiness(): Readiness;
  reload(by: Initiator): Promise<ReloadResult>;
  compare(): Promise<Omit<ReloadResult, "generation">>;
  /** Returns the sections of gateway.yaml on disk that wait for the next start. @throws ConfigError */
  awaitingRestart(): Promise<ReloadResult["restart"]>;
  /** Switches a provider or a target off or on, until this process ends. @param name of a provider or a target */
  switch(name: string, off: boolean): void;
  /** Asks every serving process, and returns the answers of those that did not die meanwhile. */
  askAll<Ask, Answer>(question: Question<Ask, Answer>, payload: Ask): Promise<Answer[]>;
  /** Returns the metrics of the serving processes, to be aggregated, with what ended workers have counted. */
  askMetrics(): Promise<MetricJson[][]>;
}
