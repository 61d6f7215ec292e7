import type { Readiness } from "../admin/readiness.ts";
import type { SharedFact } from "../core/peers.ts";
import type { Unwritten } from "../store/ledger.ts";

/** The exit code of a worker that has stopped, and has told which rows of the ledger were lost. */
export const LOST_ROWS = 4;

/** What the primary tells a worker. A connection comes along with its message. */
export type ToWorker =
  /** What gateway.yaml says, and the number of the generation that serves it. The first message. */
  | { readonly type: "start"; readonly text: string; readonly generation: number }
  /** To be answered by a `told` with its id. */
  | { readonly type: "ask"; readonly id: number; readonly name: string; readonly question: unknown }
  | { readonly type: "connection"; readonly id: number }
  | { readonly type: "look" }
  | { readonly type: "leave" }
  | { readonly type: "stop"; readonly linger: number; readonly drain: number }
  | { readonly type: "hurry" }
  | ({ readonly type: "fact" } & SharedFact)
  | ({ readonly type: "answer" } & PrimaryAnswer);

/** What a worker tells the primary. */
export type ToPrimary =
  | { readonly type: "ready" }
  /** Given connections that it has now, and how many it had that are closed. */
  | { readonly type: "taken"; readonly id: number }
  | { readonly type: "closed"; readonly count: number }
  /** `unwritten`: what goes with it if it is killed. */
  | { readonly type: "alive"; readonly parts: Readiness["parts"]; readonly unwritten: Unwritten | undefined }
  /** Something broke outside of every request: it gets no more connections, and ends. */
  | { readonly type: "failed" }
  | ({ readonly type: "told" } & PrimaryAnswer)
  | ({ readonly type: "fact" } & SharedFact)
  | WorkerQuestion;

/** A question that one process answers for all. */
export interface WorkerQuestion {
  readonly type: "question";
  readonly id: number;
  readonly name: string;
  readonly question: unknown;
}

/** The answer to a question of either side, or why there is none. */
export interface PrimaryAnswer {
  readonly id: number;
  readonly answer?: unknown;
  readonly failure?: string;
}
