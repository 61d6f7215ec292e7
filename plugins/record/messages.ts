import type { RecordedExchange } from "model-gateway";

/** Where recordings are kept, and for how long. */
export interface RecordFileOptions {
  readonly file: string;
  readonly milliseconds: number;
  /** Approximate maximum of all recordings. */
  readonly bytes: number;
}

/** The thread's start parameters. */
export interface RecordWorkerOptions extends RecordFileOptions {
  /** Maximum bytes of each body. */
  readonly body: number;
  /** Sources of regular expressions whose matches are removed. */
  readonly patterns: readonly string[];
}

/** An original message, secrets included. */
export interface RawMessage extends Pick<RecordedExchange["request"], "first" | "headers" | "bytes"> {
  readonly body: Uint8Array;
  /** Whether the body is incomplete, at any length. */
  readonly part?: true;
}

/** An original exchange; it never leaves the process. */
export interface RawExchange extends Omit<RecordedExchange, "request" | "answer" | "attempts"> {
  readonly request: RawMessage;
  readonly answer?: RawMessage;
  readonly attempts: readonly RawAttempt[];
}

/** An original attempt, secrets included. */
export interface RawAttempt extends Omit<RecordedExchange["attempts"][number], "request" | "answer"> {
  readonly request: RawMessage;
  readonly answer?: RawMessage;
}

/** Messages to the thread. */
export type ToRecordThread =
  | {
      readonly type: "keep";
      readonly exchange: RawExchange;
      readonly secrets: readonly string[];
      readonly size: number;
    }
  | { readonly type: "close" };

/** Messages from the thread: it is ready; it has processed so many bytes, and their problem, if any; or why pruning failed. */
export type FromRecordThread =
  | { readonly type: "ready" }
  | { readonly type: "kept too long"; readonly problem: string }
  | { readonly type: "done"; readonly size: number; readonly problem?: string };
