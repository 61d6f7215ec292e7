import type { Exchange } from "./exchange.ts";

// What each phase may see and change of an exchange: what it does not have yet is not in its type.

type HeadFields =
  | ("id" | "time" | "address" | "network" | "method" | "path" | "query" | "headers" | "credentials")
  | (
      | "protocol"
      | "operation"
      | "strict"
      | "caller"
      | "notices"
      | "replyHeaders"
      | "dropped"
      | "droppedFromAnswer"
      | "slots"
      | "dryRun"
    )
  | ("elapsed" | "aborted" | "signal" | "onAbort" | "trace" | "traceId");
type AskedFields = HeadFields | "body" | "form" | "pathModel" | "requestedModel" | "texts" | "model" | "targets";

/** In `access` and `serve`: the head is in, no body byte is. */
export type AccessExchange = Pick<Exchange, HeadFields | "answer">;

/** In `request`: the body is in. */
export type RequestExchange = Pick<
  Exchange,
  HeadFields | "answer" | "body" | "form" | "pathModel" | "requestedModel" | "edit" | "texts" | "mapText"
>;

/** In `route`: `model` and `targets` are to be found. */
export type RouteExchange = Pick<Exchange, keyof RequestExchange | "model" | "targets" | "conversation">;

/** What every phase from `route` on can read: what is asked, and of whom. */
export type AskedExchange = Readonly<Pick<Exchange, AskedFields>>;

/** In `send`: the request is settled; what can still be changed is the attempt. */
export type SendExchange = AskedExchange & Readonly<Pick<Exchange, "attempts">> & Pick<Exchange, "told">;

/** In `response`: an answer's head is in. */
export type ResponseExchange = SendExchange &
  Readonly<Pick<Exchange, "attempt" | "answerer" | "head" | "answerTexts" | "wholeTexts" | "mapAnswerText" | "push">> &
  Pick<Exchange, "usage" | "unread" | "error" | "drains" | "progress">;

/** In `done`: it has ended, however that was. What it never came to is undefined or empty. */
export type DoneExchange = SendExchange &
  Readonly<
    Pick<
      Exchange,
      | ("attempt" | "answerer" | "head" | "usage")
      | ("streaming" | "status" | "outcome" | "error" | "received" | "written" | "firstByte")
    >
  > &
  Pick<Exchange, "charge">;
