import t from "tap";
import { isFailure, rawReason, reasonOf, wordOf } from "../../../../plugins/protocols/gemini/response.finish.ts";
import type { FinishReason } from "../../../../src/translation/events.ts";

t.test("a reason that is unspecified, 0 or missing is none", async (t) => {
  for (const nothing of [undefined, null, 0, "", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", {}])
    t.equal(rawReason(nothing), undefined);
  t.equal(rawReason("STOP"), "STOP");
  t.equal(rawReason(2), "2");
});

t.test("the vendor's words mean what they say, also as numbers and when they are new", async (t) => {
  const meanings: [string, FinishReason][] = [
    ["STOP", "stop"],
    ["1", "stop"],
    ["MAX_TOKENS", "length"],
    ["2", "length"],
    ["CONTINUATION", "length"],
    ["SAFETY", "content_filter"],
    ["3", "content_filter"],
    ["RECITATION", "content_filter"],
    ["MODEL_ARMOR", "content_filter"],
    ["IMAGE_PROHIBITED_CONTENT", "content_filter"],
    ["MALFORMED_FUNCTION_CALL", "malformed_call"],
    ["UNEXPECTED_TOOL_CALL", "malformed_call"],
    ["OTHER", "other"],
    ["5", "other"],
    ["99", "other"],
    ["LANGUAGE", "other"],
    ["SOMETHING_NEW", "other"],
    ["__proto__", "other"],
  ];
  for (const [raw, reason] of meanings) t.equal(reasonOf(raw, false), reason, raw);
});

t.test("STOP with calls asks for their results; a cut answer is a cut answer all the same", async (t) => {
  t.equal(reasonOf("STOP", true), "tool_calls");
  t.equal(reasonOf("MAX_TOKENS", true), "length");
});

t.test("an end that is no stop, no limit and no filter is a failure", async (t) => {
  for (const raw of ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "OTHER", "SOMETHING_NEW"])
    t.ok(isFailure(reasonOf(raw, false)), raw);
  for (const raw of ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "CONTINUATION"])
    t.notOk(isFailure(reasonOf(raw, false)), raw);
});

t.test("every reason has a word, and a refusal is never an ordinary stop", async (t) => {
  t.equal(wordOf("tool_calls", false), "STOP");
  t.equal(wordOf("pause", false), "STOP");
  t.equal(wordOf("context_window", false), "MAX_TOKENS");
  t.equal(wordOf("refusal", false), "SAFETY");
  t.equal(wordOf("malformed_call", false), "MALFORMED_FUNCTION_CALL");
  t.equal(wordOf("stop", true), "SAFETY");
  t.equal(wordOf("length", true), "MAX_TOKENS");
});
