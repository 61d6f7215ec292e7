/// <reference types="node" preserve="true" />
/** The exports for plugins: `import { … } from "model-gateway"`. */

export type { Answer } from "./core/answer.ts";
export type { Attempt } from "./core/attempt.ts";
export type { Body } from "./core/body.ts";
export type { Caller } from "./core/caller.ts";
export { GatewayError } from "./core/errors.ts";
export type { FailedAnswer, Head } from "./core/head.ts";
export { Log } from "./core/log.ts";
export { Marketplace, type Model, type Target } from "./core/marketplace.ts";
export type {
  AccessExchange,
  DoneExchange,
  RequestExchange,
  ResponseExchange,
  RouteExchange,
  SendExchange,
} from "./core/phases.ts";
export { Options, type Plugin } from "./core/plugin.ts";
export type { ListedModel, Protocol } from "./core/protocol.ts";
export type { RecordedExchange } from "./core/recorded.ts";
export { Redactor } from "./core/redactor.ts";
export { slot } from "./core/slot.ts";
export type { Stage } from "./core/stage.ts";
export { optionalPackage } from "./store/optional-package.ts";
export { Translations } from "./translation/translations.ts";
export { Health } from "./upstream/health.ts";
export { foldCase } from "./wire/any-case.ts";
export { Frame } from "./wire/frame.ts";
export { type Scan, scan } from "./wire/json.ts";
export { type Edit, removeMembers, setMember, splice } from "./wire/splice.ts";
