import type { Recorded } from "model-gateway";

/** Where recordings are kept, and for how long. */
export interface FileTerms {
  readonly file: string;
  readonly milliseconds: number;
  /** Of all of them, about. */
  readonly bytes: number;
}

/** What the thread is started with. */
export interface WorkerTerms extends FileTerms {
  /** Bytes of each body that are kept. */
  readonly body: number;
  /** Sources of regular expressions whose matches are taken out. */
  readonly patterns: readonly string[];
}

/** A message as it was, secrets included. */
export interface RawMessage extends Pick<Recorded["request"], "first" | "headers" | "bytes"> {
  readonly body: Uint8Array;
  /** The body is not all of it, however short it is. */
  readonly part?: true;
}

/** An exchange as it was; it never leaves the process. */
export interface RawExchange extends Omit<Recorded, "request" | "answer" | "attempts"> {
  readonly request: RawMessage;
  readonly answer?: RawMessage;
  readonly attempts: readonly RawAttempt[];
}

export interface RawAttempt extends Omit<Recorded["attempts"][number], "request" | "answer"> {
  readonly request: RawMessage;
  readonly answer?: RawMessage;
}

/** To the thread. */
export type ToRecordThread =
  | {
      readonly type: "keep";
      readonly exchange: RawExchange;
      readonly secrets: readonly string[];
      readonly size: number;
    }
  | { readonly type: "close" };

/** From it: it is ready; it is done with so many bytes, and what went wrong with them; or why what is over is still there. */
export type FromRecordThread =
  | { readonly type: "ready" }
  | { readonly type: "kept too long"; readonly problem: string }
  | { readonly type: "done"; readonly size: number; readonly problem?: string };
