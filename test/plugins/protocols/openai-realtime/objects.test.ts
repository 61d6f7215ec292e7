import t from "tap";
import { namesInMessage } from "../../../../plugins/protocols/openai-realtime/objects.ts";

t.test("a prompt and models are named in the session and in a response", async (t) => {
  const session = {
    type: "realtime",
    model: "a",
    prompt: { id: "pmpt_1", variables: { model: "no" } },
    audio: { input: { transcription: { model: "b", prompt: "a text" } } },
    tools: [{ type: "mcp", model: "no" }],
  };
  t.same(
    [
      ...namesInMessage({
        type: "session.update",
        session,
        response: { prompt: { id: "pmpt_2" }, metadata: { model: "no" } },
      }),
    ],
    [
      { kind: "model", name: "a", param: "session.model" },
      { kind: "object", name: "pmpt_1", param: "session.prompt.id" },
      { kind: "model", name: "b", param: "session.audio.input.transcription.model" },
      { kind: "object", name: "pmpt_2", param: "response.prompt.id" },
    ],
  );
});

t.test("a file is named in an item, too", async (t) => {
  const item = { type: "message", content: [{ type: "input_file", file_id: "file-1" }] };
  t.same(namesInMessage({ type: "conversation.item.create", item }), [
    { kind: "object", name: "file-1", param: "item.content.0.file_id" },
  ]);
});

t.test("other messages name nothing", async (t) => {
  for (const message of [null, 1, "x", [], {}, { session: 1 }, { session: { prompt: "x" } }, { item: { model: "x" } }])
    t.same([...namesInMessage(message)], []);
});

t.test("of a long path the beginning is told: a message may name many models below long names", async (t) => {
  const [found] = namesInMessage({ session: { ["x".repeat(1000)]: { model: "a" } } });
  t.same(found, { kind: "model", name: "a", param: "session.…" });
});
