import { bearer, type Frame, glance, PING, type Protocol } from "model-gateway/protocol";
import { error } from "./errors.ts";

/** Usage is a member `usage`, of the answer or of the event that carries it. */
export const holdsUsage = (frame: Frame): boolean => glance(frame.bytes, "usage");

/** What the protocols of this family have in common. Each spreads it first, and then says what is its own. */
export const family = {
  segment: "/v1",
  headers: ["openai-beta", "idempotency-key", "x-client-request-id", "x-stainless-*"],
  answerHeaders: ["openai-processing-ms", "openai-version"],
  ping: PING,
  credential: bearer,
  error,
  holdsUsage,
} satisfies Partial<Protocol>;
