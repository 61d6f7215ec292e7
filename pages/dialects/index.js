/**
 * How the playground asks and reads each protocol: a path, headers, a body, and what an event of the stream tells. An event
 * becomes a list of `{ text }`, `{ reasoning }`, `{ call: { at, name, json } }`, `{ usage: { in, out } }` and `{ error }`.
 */

import { chat } from "./chat.js";
import { gemini } from "./gemini.js";
import { messages } from "./messages.js";
import { responses } from "./responses.js";

/** By the protocol's name. */
export const DIALECTS = {
  "openai-chat": chat,
  "openai-responses": responses,
  "anthropic-messages": messages,
  gemini,
};
