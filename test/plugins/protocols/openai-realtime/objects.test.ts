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
      { kind: "model", name: "a", path: ["session", "model"] },
      { kind: "object", name: "pmpt_1", path: ["session", "prompt", "id"] },
      { kind: "model", name: "b", path: ["session", "audio", "input", "transcription", "model"] },
      { kind: "object", name: "pmpt_2", path: ["response", "prompt", "id"] },
    ],
  );
});

t.test("a file is named in an item, too", async (t) => {
  const item = { type: "message", content: [{ type: "input_file", file_id: "file-1" }] };
  t.same(namesInMessage({ type: "conversation.item.create", item }), [
    { kind: "object", name: "file-1", path: ["item", "content", "0", "file_id"] },
  ]);
});

t.test("messages in a list name what they name alone", async (t) => {
  t.same(namesInMessage([1, { session: { model: "a" } }, { item: { content: [{ file_id: "file-1" }] } }]), [
    { kind: "model", name: "a", path: ["1", "session", "model"] },
    { kind: "object", name: "file-1", path: ["2", "item", "content", "0", "file_id"] },
  ]);
});

t.test("other messages name nothing", async (t) => {
  for (const message of [null, 1, "x", [], {}, { session: 1 }, { session: { prompt: "x" } }, { item: { model: "x" } }])
    t.same([...namesInMessage(message)], []);
});

t.test("many models below long names take little memory", async (t) => {
  let session: object = Array.from({ length: 1000 }, () => ({ model: "a" }));
  for (let level = 0; level < 5; level++) session = { ["n".repeat(60_000)]: session };
  const before = process.memoryUsage().heapUsed;
  const names = namesInMessage({ session });
  const taken = process.memoryUsage().heapUsed - before;
  t.equal(names.length, 1000);
  t.ok(taken < 100 * 1024 * 1024, `${taken} bytes`);
});
