/** What a plugin may import: `import { … } from "model-gateway"`. */

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
export { Log } from "./log.ts";
export { Marketplace } from "./marketplace.ts";
export { type Answer, Options, type Plugin, type PluginClass, type Stage } from "./plugin.ts";
export type {
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
  errorObject,
  eventBytes,
  type Fault,
  fixedPaths,
  type JsonObject,
  PING,
  post,
  textOf,
} from "./protocol-parts.ts";
export { type KeyRecord, Keys, type NewKey } from "./store/keys.ts";
export { Ledger, type LedgerEntry } from "./store/ledger.ts";
export { cost, type Price, type Usage } from "./usage.ts";
export { Frame, type FrameKind } from "./wire/frame.ts";
export { HeaderList } from "./wire/headers.ts";
export { glance, type Member, type Scan, Scanner, scan } from "./wire/json.ts";
export { type Edit, removeMembers, replaceMember, setMember, splice } from "./wire/splice.ts";
