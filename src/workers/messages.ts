import type { Readiness } from "../admin/readiness.ts";
import type { StartSettings } from "../config/changes.ts";
import type { SharedFact } from "../core/peers.ts";
import type { MetricJson } from "../metrics/families.ts";
import type { UnwrittenLines } from "../store/ledger.ts";

/** The exit code of a worker that has stopped, and has logged which rows of the ledger were lost. */
export const LOST_ROWS_EXIT = 4;

/** Messages of the primary to a worker. A connection is sent along with its message. */
export type ToWorker =
  /** The first message. */
  | ({ readonly type: "start" } & WorkerStart)
  | { readonly type: "connection"; readonly id: number }
  /** `connection`: the last one that was sent before. */
  | { readonly type: "check"; readonly connection: number }
  | { readonly type: "leave" }
  | { readonly type: "stop"; readonly linger: number; readonly drain: number }
  | { readonly type: "interrupt" }
  | ({ readonly type: "fact" } & SharedFact)
  | QuestionMessage
  | AnswerMessage;

/** What a worker starts with. */
export interface WorkerStart {
  /** The gateway.yaml in force. */
  readonly text: string;
  /** The number of the generation that serves it. */
  readonly generation: number;
  /** The settings of the primary's start: those of the text take effect at its next one. */
  readonly started: StartSettings;
}

/** Messages of a worker to the primary. */
export type ToPrimary =
  | { readonly type: "ready" }
  /** A connection that the worker has accepted, and the number of its connections that were closed. */
  | { readonly type: "accepted"; readonly id: number }
  | { readonly type: "closed"; readonly count: number }
  /** The answer to a check, with its `connection`. `unwritten`: rows that would be lost if the worker were killed. */
  | {
      readonly type: "alive";
      readonly connection: number;
      readonly parts: Readiness["parts"];
      readonly unwritten: UnwrittenLines | undefined;
    }
  /** What the worker has counted so far: every few seconds, and when it ends. */
  | { readonly type: "metrics"; readonly metrics: readonly MetricJson[] }
  /** A crash outside of every request: the worker takes no more connections, and ends. */
  | { readonly type: "failed" }
  | ({ readonly type: "fact" } & SharedFact)
  | QuestionMessage
  | AnswerMessage;

/** A question of either side. */
export interface QuestionMessage {
  readonly type: "question";
  readonly id: number;
  readonly name: string;
  readonly question: unknown;
}

/** The answer to the question with this id, or why there is none. */
export interface AnswerMessage {
  readonly type: "answer";
  readonly id: number;
  readonly answer?: unknown;
  readonly failure?: string;
}
