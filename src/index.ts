/** What a plugin may import: `import { … } from "model-gateway"`. */

export type {
  CacheMark,
  Changed,
  Conversation,
  Effort,
  Foreign,
  Format,
  Media,
  MediaSource,
  Part,
  Reasoning,
  ReasoningWish,
  Refusal,
  Said,
  Task,
  Text,
  Tool,
  ToolCall,
  ToolChoice,
  ToolResult,
  Turn,
} from "./conversation.ts";
export {
  DEMO_CUT,
  type DemoAsk,
  type DemoScript,
  demoFault,
  demoId,
  demoPause,
  demoRefusal,
  demoScript,
  demoStream,
  demoTokens,
  demoWhole,
  faultOf,
  sampleOf,
} from "./demo-script.ts";
export { Body } from "./downstream/body.ts";
export { type ErrorCode, type ErrorDetails, type ErrorKind, GatewayError, REFUSALS } from "./errors.ts";
export type { Citation, Event, EventOf, FinishReason, Opaque, Opening } from "./events.ts";
export {
  type Attempt,
  type Caller,
  Exchange,
  type Head,
  type Model,
  type Outcome,
  type Provider,
  type Target,
} from "./exchange.ts";
export { type Fate, type Fates, FEATURES, type Feature, fateOf } from "./features.ts";
export { Log } from "./log.ts";
export { Marketplace } from "./marketplace.ts";
export { type Answer, Options, type Plugin, type PluginClass, type Stage } from "./plugin.ts";
export type {
  Better,
  DemoAnswer,
  DemoFrame,
  DemoRequest,
  Ending,
  IncludeUsage,
  Kept,
  ListedModel,
  Listing,
  Located,
  Operation,
  Protocol,
  StreamState,
} from "./protocol.ts";
export {
  asCount,
  asList,
  asObject,
  asText,
  atMost,
  bearer,
  counts,
  defined,
  type ErrorWords,
  entryOf,
  errorObject,
  eventBytes,
  type Fault,
  fixedPaths,
  type JsonObject,
  maySearch,
  PING,
  post,
  textOf,
} from "./protocol-parts.ts";
export { Protocols } from "./protocols.ts";
export { type KeyRecord, Keys, type NewKey } from "./store/keys.ts";
export { Ledger, type LedgerEntry } from "./store/ledger.ts";
export { Envelopes } from "./translation/envelope.ts";
export { estimate } from "./translation/estimate.ts";
export { refusal } from "./translation/faults.ts";
export { Framing } from "./translation/framing.ts";
export { callIds, safeId, TextKey } from "./translation/ids.ts";
export {
  clientSide,
  type Destination,
  type Received,
  readRequest,
  type Translated,
  translates,
  type WrittenRequest,
  withoutForeign,
  writeRequest,
} from "./translation/request.ts";
export {
  type Crossing,
  StreamTranslator,
  wholeEvents,
  wholeStream,
  wholeText,
} from "./translation/translator.ts";
export { joined } from "./translation/turns.ts";
export { weightOf } from "./translation/weight.ts";
export type {
  Asked,
  ClientTranslation,
  Decoder,
  Encoded,
  Encoder,
  Facts,
  Names,
  Source,
  Terms,
  Translation,
  Wish,
  Written,
} from "./translation.ts";
export { pathOf } from "./upstream/attempts.ts";
export { cost, type Price, type Usage } from "./usage.ts";
export { parseExact, RawJson, writeJson } from "./wire/exact.ts";
export { Frame, type FrameKind } from "./wire/frame.ts";
export { HeaderList } from "./wire/headers.ts";
export { glance, type Member, type Scan, Scanner, scan } from "./wire/json.ts";
export { type Edit, removeMembers, replaceMember, setMember, splice } from "./wire/splice.ts";
