import type { ZodType } from "zod";
import type { Answer, Attempt, FailedAnswer, Head } from "./exchange.ts";
import type {
  AccessExchange,
  DoneExchange,
  RequestExchange,
  ResponseExchange,
  RouteExchange,
  SendExchange,
} from "./phases.ts";
import type { Recorded } from "./recorded.ts";
import type { Stage } from "./stage.ts";

type MaybePromise<T> = T | Promise<T>;

/**
 * A class in a file of `plugins/`, default export, built by tsyringe with constructor injection. Every phase is optional.
 * Within a phase plugins run in the order of the chain, except `response` and stages, which run from its end.
 */
export interface Plugin {
  /** The head is in, no body byte is. May refuse by throwing a GatewayError, may change headers, may answer. */
  access?: (exchange: AccessExchange) => MaybePromise<void>;
  /** The body is in, in the client's words. May refuse, change what is asked, answer. */
  request?: (exchange: RequestExchange) => MaybePromise<void>;
  /** Names the model, fills `exchange.targets`. May refuse, change what is asked, answer. */
  route?: (exchange: RouteExchange) => MaybePromise<void>;
  /** Once for each attempt: changes what will be written upstream. */
  send?: (exchange: SendExchange, attempt: Attempt) => MaybePromise<void>;
  /**
   * An attempt has failed, and the client gets nothing of what its provider answered. Only looks: what is tried next is settled,
   * and waits for this. An attempt without an answer has none.
   */
  failed?: (exchange: SendExchange, attempt: Attempt, answer: FailedAnswer) => MaybePromise<void>;
  /** The answer's head is in. May change it; may return a stage. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most plugins only look
  response?: (exchange: ResponseExchange, head: Head) => MaybePromise<Stage | void>;
  /** Exactly once, however it ended. Records; nothing can be changed any more. */
  done?: (exchange: DoneExchange) => MaybePromise<void>;
  /** Answers a path that gateway.yaml says this plugin serves (`serve: models`). */
  serve?: (exchange: AccessExchange) => MaybePromise<Answer>;
  /** What it has kept of an exchange, for who signs in to the console as admin; undefined: nothing. */
  recorded?: (id: string) => MaybePromise<Recorded | undefined>;
  /** Before the first request. */
  start?: (how: Start) => MaybePromise<void>;
  /** The gateway stops, or a new gateway.yaml has replaced this one: frees what it holds. */
  close?: () => MaybePromise<void>;
}

/** How a plugin is started. */
export interface Start {
  /**
   * Only a check (`npm start -- check`): say what is wrong by throwing, but open, write and send nothing. No request follows,
   * and `close` at once.
   */
  readonly dry: boolean;
}

/** What the class itself may declare. */
export interface PluginClass {
  new (...parts: never[]): Plugin;
  readonly prototype: Plugin;
  /** Schema of its options in gateway.yaml. */
  options?: ZodType;
  /** Schemas of what it serves, for `/openapi.json`: of the answer at its path, and of that behind the path, by an id. */
  answers?: { readonly all?: ZodType; readonly one?: ZodType };
  /** Plugins that must stand before it in every chain that has both. */
  after?: readonly string[];
  /** Plugins that must stand behind it in every chain that has both. */
  before?: readonly string[];
  /** It looks at both ends of what stands between: a chain has it in two places, and its phases run in both. */
  twice?: boolean;
}

/** The phases that an exchange passes, in order. */
export const PHASES = ["access", "request", "route", "send", "failed", "response", "done"] as const;
export type Phase = (typeof PHASES)[number];

/** Token of a plugin's own options, checked against its schema: `@inject(Options) private readonly options`. */
export const Options = Symbol("Options");
