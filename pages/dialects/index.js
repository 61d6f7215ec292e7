/**
 * How the playground uses each protocol: path, headers, body, and a reader of the stream's events. `read` turns an event into a
 * list of `{ text }`, `{ reasoning }`, `{ call: { at, name, json } }`, `{ usage: { in, out } }` and `{ error }`.
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
