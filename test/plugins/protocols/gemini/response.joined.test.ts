import t from "tap";
import { joinedCandidate, joins, type Shape } from "../../../../plugins/protocols/gemini/response.joined.ts";

const shape = (kind: Shape["kind"], signed = false, empty = false): Shape => ({ kind, signed, empty });
const joined = (...parts: object[]): unknown => {
  const frames = parts.map((part) => ({ candidates: [{ content: { parts: [part] }, index: 0 }] }));
  return (joinedCandidate({ index: 0 }, frames)["content"] as { parts: unknown } | undefined)?.parts;
};

t.test("texts of one kind go on; a signature begins a text and ends a thought", async (t) => {
  t.ok(joins(shape("text"), shape("text")));
  t.ok(joins(shape("text", true), shape("text")));
  t.notOk(joins(shape("text"), shape("text", true)));
  t.ok(joins(shape("thought"), shape("thought", true, true)));
  t.notOk(joins(shape("thought"), shape("thought", true)));
  t.notOk(joins(shape("thought", true), shape("thought")));
  t.notOk(joins(shape("thought"), shape("text")));
  t.notOk(joins(shape("other"), shape("other")));
  t.notOk(joins(undefined, shape("text")));
});

t.test("parts of all frames are joined in order", async (t) => {
  const call = { functionCall: { name: "f", args: {} } };
  t.strictSame(
    joined(
      { text: "a", thought: true },
      { text: "b", thought: true },
      { text: "", thought: true, thoughtSignature: "s" },
      { text: "c" },
      { text: "d" },
      call,
      call,
      { text: "" },
    ),
    [{ text: "ab", thought: true, thoughtSignature: "s" }, { text: "cd" }, call, call],
  );
  t.strictSame(joined({ text: "" }), [{ text: "" }]);
  t.strictSame(joined({ text: "" }, call), [call]);
});

t.test("a candidate without any content stays without", async (t) => {
  t.strictSame(
    joinedCandidate({ index: 1, finishReason: "SAFETY" }, [{ candidates: [{ index: 0, content: { parts: [] } }] }]),
    {
      index: 1,
      finishReason: "SAFETY",
    },
  );
});
