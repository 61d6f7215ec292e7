import type { ZodType } from "zod";
import type { Answer } from "./answer.ts";
import type { Attempt } from "./attempt.ts";
import type { FailedAnswer, Head } from "./head.ts";
import type {
  AccessExchange,
  DoneExchange,
  RequestExchange,
  ResponseExchange,
  RouteExchange,
  SendExchange,
} from "./phases.ts";
import type { RecordedExchange } from "./recorded.ts";
import type { Stage } from "./stage.ts";

/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>;

/**
 * A class in a file of `plugins/`, its default export, constructed by tsyringe with constructor injection. Every phase is
 * optional. Within a phase plugins run in the order of the chain; `response` and stages run in reverse order.
 */
export interface Plugin {
  /** The head has been received, the body has not. May refuse by throwing a GatewayError, change headers, or respond. */
  access?: (exchange: AccessExchange) => MaybePromise<void>;
  /** The body has been received, in the client's protocol. May refuse, change the request, or respond. */
  request?: (exchange: RequestExchange) => MaybePromise<void>;
  /** Resolves the model and fills `exchange.targets`. May refuse, change the request, or respond. */
  route?: (exchange: RouteExchange) => MaybePromise<void>;
  /** Called once for each attempt: changes what will be sent upstream. */
  send?: (exchange: SendExchange, attempt: Attempt) => MaybePromise<void>;
  /**
   * An attempt has failed, and its provider's response is not passed to the client. Observes only: the next step is already
   * decided, and waits for this; what it throws is logged. Not called for an attempt without a response.
   */
  failed?: (exchange: SendExchange, attempt: Attempt, answer: FailedAnswer) => MaybePromise<void>;
  /** The head of the response has been received. May change it; may return a stage. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most plugins only look
  response?: (exchange: ResponseExchange, head: Head) => MaybePromise<Stage | void>;
  /** Called exactly once, however the exchange ended. Records; nothing can be changed any more. */
  done?: (exchange: DoneExchange) => MaybePromise<void>;
  /** Responds on a path that gateway.yaml assigns to this plugin (`serve: models`). */
  serve?: (exchange: AccessExchange) => MaybePromise<Answer>;
  /** Returns what it has stored of an exchange, for console admins; undefined: nothing. */
  recorded?: (id: string) => MaybePromise<RecordedExchange | undefined>;
  /**
   * Called before the first request. `dry`: only a check (`npm start -- check`): report problems by throwing, but open, write and
   * send nothing. No request follows, and `close` is called at once.
   */
  start?: (how: { readonly dry: boolean }) => MaybePromise<void>;
  /** Frees resources: the gateway stops, or a new gateway.yaml has replaced this one. */
  close?: () => MaybePromise<void>;
}

/** Static members that the class may declare. */
export interface PluginClass {
  new (...parts: never[]): Plugin;
  readonly prototype: Plugin;
  /** The schema of its options in gateway.yaml. */
  options?: ZodType;
  /** Schemas of its responses, for `/openapi.json`: at its path, and at the path followed by an id. */
  answers?: { readonly all?: ZodType; readonly one?: ZodType };
  /** Plugins that must precede it in every chain that has both. */
  after?: readonly string[];
  /** Plugins that must follow it in every chain that has both. */
  before?: readonly string[];
  /** It handles both sides of the plugins between: a chain has it in two places, and its phases run in both. */
  twice?: boolean;
}

/** The phases of an exchange, in order. */
export const PHASES = ["access", "request", "route", "send", "failed", "response", "done"] as const;
export type Phase = (typeof PHASES)[number];

/** The injection token of a plugin's own options, checked against its schema: `@inject(Options) private readonly options`. */
export const Options = Symbol("Options");
