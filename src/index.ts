/** What a policy may import: `import { … } from "model-gateway"`. */

export { Body } from "./core/body.ts";
export { GatewayError } from "./core/errors.ts";
export { type Answer, type Attempt, Exchange, type Head } from "./core/exchange.ts";
export { faultOf } from "./core/fault.ts";
export { Log } from "./core/log.ts";
export { type Caller, Marketplace, type Model, type Provider, type Target } from "./core/marketplace.ts";
export { Options, type Plugin, type Stage } from "./core/plugin.ts";
export type { Ending, ListedModel, Protocol } from "./core/protocol.ts";
export { Protocols } from "./core/protocols.ts";
export { cost, type Usage } from "./core/usage.ts";
export { type KeyRecord, Keys } from "./store/keys.ts";
export { Ledger, type LedgerEntry } from "./store/ledger.ts";
export {
  betterOf,
  clientSide,
  type ResponseContext,
  type TranslatedProtocol,
  translates,
  translationOf,
} from "./translation/codec.ts";
export type { Conversation } from "./translation/conversation.ts";
export { Envelopes } from "./translation/envelope.ts";
export { estimate } from "./translation/estimate.ts";
export { refusal } from "./translation/faults.ts";
export { Framing } from "./translation/framing.ts";
export {
  type ClientRequest,
  type RequestDestination,
  readRequest,
  type WrittenRequest,
  withoutForeign,
  writeRequest,
} from "./translation/request.ts";
export {
  type ResponseTranslation,
  StreamTranslator,
  wholeEvents,
  wholeStream,
  wholeText,
} from "./translation/translator.ts";
export { pathOf } from "./upstream/attempts.ts";
export { Frame } from "./wire/frame.ts";
export { HeaderList } from "./wire/headers.ts";
export { type Scan, Scanner, scan } from "./wire/json.ts";
export { type Edit, removeMembers, replaceMember, setMember, splice } from "./wire/splice.ts";
