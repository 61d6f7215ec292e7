import t from "tap";
import { CHAT_FINISH_REASONS, declareFinish } from "../../../../plugins/protocols/openai/response.encode.ts";
import { type Event, type FinishReason } from "../../../../src/translation/events.ts";
import { context } from "../openai-chat/fixture.ts";

const lost = (more: Partial<Event & { type: "finish" }>, refused = false): string[] => {
  const to = context();
  declareFinish({ type: "finish", choice: 0, reason: "stop", ...more }, refused, to);
  return to.lost;
};

t.test("every reason has a value of the vendor's", async (t) => {
  const vendors = ["stop", "length", "tool_calls", "content_filter"];
  for (const word of Object.values(CHAT_FINISH_REASONS)) t.ok(vendors.includes(word), word);
});

t.test("reasons without a value are declared", async (t) => {
  const silent: FinishReason[] = ["stop", "length", "tool_calls", "content_filter", "refusal", "context_window"];
  for (const reason of silent) {
    t.same(lost({ reason }), [], reason);
    t.same(lost({ reason, message: "why" }), ["finish_reason"], reason);
  }
  for (const reason of ["pause", "malformed_call", "other"] as const)
    t.same(lost({ reason }), ["finish_reason"], reason);
  t.same(lost({ reason: "refusal", message: "why" }, true), []);
  t.same(lost({ reason: "stop_sequence", stopSequence: "END" }), ["stop_sequence"]);
});
