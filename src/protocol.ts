/// <reference types="node" preserve="true" />
/** The exports for protocols: `import { … } from "model-gateway/protocol"`. */

export { type ErrorKind, errorKindOf, GatewayError } from "./core/errors.ts";
export { type ErrorNames, errorObject, type Fault, statusFault } from "./core/fault.ts";
export type { ObjectMembers, RequestMembers, VendorObjects } from "./core/object-members.ts";
export type {
  DemoAnswer,
  DemoRequest,
  Ending,
  ListedModel,
  Listing,
  Operation,
  OtherModelMembers,
  Protocol,
  RateLimitStates,
  SocketName,
  StreamState,
  TextKind,
  TextPlace,
} from "./core/protocol.ts";
export { bearer, eventBytes, fixedPaths, post } from "./core/protocol-parts.ts";
export type { ExtraUsage, Usage } from "./core/usage.ts";
export { argumentsObject, isEmptyArguments } from "./translation/arguments.ts";
export type {
  ClientProtocol,
  EncodeContext,
  EncodedFrame,
  EncodedRequest,
  IncomingRequest,
  OpaqueConsequence,
  OpaquePlace,
  OpaquePlaces,
  ResponseContext,
  ResponseDecoder,
  ResponseEncoder,
  ResponseSource,
  TranslatedProtocol,
  Translation,
} from "./translation/codec.ts";
export type {
  CacheMark,
  Conversation,
  DecodingChange,
  Effort,
  FeatureUse,
  Foreign,
  Format,
  Media,
  MediaSource,
  Part,
  Reasoning,
  ReasoningConfig,
  Refusal,
  Text,
  Tool,
  ToolCall,
  ToolChoice,
  ToolResult,
  Turn,
} from "./translation/conversation.ts";
export { demoAnswer } from "./translation/demo.ts";
export {
  DEMO_CUT,
  demoFault,
  demoId,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
} from "./translation/demo-script.ts";
export { ReasoningBudget } from "./translation/effort.ts";
export { estimateRequestTokens } from "./translation/estimate.ts";
export type { BlockKind, Citation, Event, EventOf, FinishReason, Opaque, Opening } from "./translation/events.ts";
export type { Feature, SupportTable } from "./translation/features.ts";
export { Fields, invalidField, isObject, objectFields, requestFields } from "./translation/fields.ts";
export { callIds, PrefixKey, safeId, TextKey } from "./translation/ids.ts";
export { imageType } from "./translation/image-type.ts";
export { png } from "./translation/png.ts";
export { objectParameters } from "./translation/schema-root.ts";
export {
  pathOfUse,
  readSettings,
  type Setting,
  settingFields,
  writeSettings,
} from "./translation/settings.ts";
export { Steps } from "./translation/steps.ts";
export { mergeTurns } from "./translation/turns.ts";
export { maySearch } from "./translation/web-search.ts";
export { weightOf } from "./translation/weight.ts";
export { foldCase } from "./wire/any-case.ts";
export { parseExact, RawJson, writeJson } from "./wire/exact.ts";
export { Frame } from "./wire/frame.ts";
export { HeaderList } from "./wire/headers.ts";
export { isJsonText } from "./wire/nested.ts";
export { type JsonPath, stringsIn } from "./wire/paths.ts";
export { decodeOrKeep } from "./wire/query.ts";
export {
  asCount,
  asCounts,
  asList,
  asObject,
  asText,
  atMost,
  contentText,
  dropUndefined,
  type JsonObject,
  ownProperty,
  parseJson,
} from "./wire/values.ts";
