import { eventBytes, type Fault } from "model-gateway/protocol";
import { openaiErrorObject } from "../openai/errors.ts";

/** Returns an event named `error` whose data has an `error` member: the SDKs throw on either. */
export const streamError = (fault: Fault): Buffer =>
  eventBytes({ type: "error", error: openaiErrorObject(fault) }, "error");
