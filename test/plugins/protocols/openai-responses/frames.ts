/** Pieces of a stream as the vendor sends them. */

import type { Event } from "../../../../src/translation/events.ts";
import { type JsonObject } from "../../../../src/wire/values.ts";

export const response = { id: "resp_1", model: "gpt", created_at: 7, status: "in_progress", output: [] };
export const created = { type: "response.created", sequence_number: 0, response };
export const completed = (output: JsonObject[] = [], more: JsonObject = {}) => ({
  type: "response.completed",
  response: { ...response, status: "completed", output, ...more },
});
export const added = (output_index: number, item: JsonObject) => ({
  type: "response.output_item.added",
  output_index,
  item,
});
export const done = (output_index: number, item: JsonObject) => ({
  type: "response.output_item.done",
  output_index,
  item,
});
export const message = (...content: JsonObject[]) => ({ type: "message", id: "msg_1", role: "assistant", content });
export const uses = (text: string, more: JsonObject = {}) => ({ type: "output_text", text, annotations: [], ...more });
export const call = (call_id: string, args: string) => ({
  type: "function_call",
  id: `fc_${call_id}`,
  call_id,
  name: "find",
  arguments: args,
});

/** What stands between start and end. */
export const between = (events: readonly Event[]) =>
  events.filter(({ type }) => !["start", "finish", "usage", "end", "ping"].includes(type));
