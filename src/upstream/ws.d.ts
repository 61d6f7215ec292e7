import type { Writable } from "node:stream";

/** What `ws` exports and its types leave out. */
declare module "ws" {
  /** Reads frames into messages: emits `message` (bytes, whether binary), `conclude` at a close frame, `error`. */
  class Receiver extends Writable {
    constructor(options?: { isServer?: boolean; maxPayload?: number; skipUTF8Validation?: boolean });
  }
}
