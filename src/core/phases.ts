import type { Exchange } from "./exchange.ts";

// What each phase may read and change of an exchange: fields that are not set yet are not in its type.

type HeadFields =
  | ("id" | "time" | "address" | "network" | "method" | "path" | "query" | "headers" | "credentials" | "uploader")
  | ("protocol" | "operation" | "strict" | "caller" | "notices" | "replyHeaders" | "dropped" | "slots" | "dryRun")
  | ("elapsed" | "aborted" | "signal" | "onAbort" | "trace" | "traceId");
type RequestFields =
  | HeadFields
  | ("body" | "form" | "pathModel" | "requestedModel" | "wantsStream" | "wantsBackground" | "texts" | "findText");

/** In `access` and `serve`: the head has been received, the body has not. */
export type AccessExchange = Pick<Exchange, HeadFields | "answer">;

/** In `request`: the body has been received. */
export type RequestExchange = Pick<
  Exchange,
  RequestFields | "answer" | "edit" | "replaceText" | "maskText" | "mapText"
>;

/** In `route`: the phase sets `model` and `targets`. */
export type RouteExchange = Pick<Exchange, keyof RequestExchange | "model" | "targets" | "conversation" | "interrupt">;

/** What every phase from `route` on can read: the request and its targets. */
export type RoutedExchange = Readonly<Pick<Exchange, RequestFields | "model" | "targets">>;

/** In `send`: the request is final; only the attempt can still be changed. */
export type SendExchange = RoutedExchange & Readonly<Pick<Exchange, "attempts">> & Pick<Exchange, "onUsage" | "drain">;

/** In `response`: the head of a response has been received. */
export type ResponseExchange = SendExchange &
  Readonly<
    Pick<
      Exchange,
      | ("attempt" | "answerer" | "head" | "droppedFromResponse")
      | ("responseTexts" | "completeResponseTexts" | "replaceResponseText" | "unmaskResponseText" | "push")
    >
  > &
  Pick<Exchange, "usage" | "usageError" | "error" | "progress"> & {
    /** The exchange as `done` would see it if it ended now. */
    readonly asEnded: DoneExchange;
  };

/** In `done`: the exchange has ended, however. Fields that were never set are undefined or empty. */
export type DoneExchange = SendExchange &
  Readonly<
    Pick<
      Exchange,
      | ("attempt" | "answerer" | "head" | "droppedFromResponse")
      | ("streaming" | "status" | "outcome" | "error" | "received" | "written" | "firstByte" | "usageName")
    >
  > &
  Pick<Exchange, "charge" | "usage" | "usageError" | "progress">;
