import t from "tap";
import { messageUsageReader } from "../../../../plugins/protocols/openai-realtime/usage.ts";
import type { Usage } from "../../../../src/core/usage.ts";

/** Returns the usage of a connection with these messages of the provider. */
function usageOf(...events: object[]): Usage | undefined {
  const read = messageUsageReader();
  return events.reduce<Usage | undefined>((usage, event) => read(Buffer.from(JSON.stringify(event)), usage), undefined);
}

const transcribed = (usage: object) => ({
  type: "conversation.item.input_audio_transcription.completed",
  transcript: "Good morning",
  usage: { type: "tokens", ...usage },
});
const done = { type: "response.done", response: { usage: { input_tokens: 100, output_tokens: 50 } } };
const tokens = transcribed({ input_tokens: 38, output_tokens: 10, input_token_details: { audio_tokens: 28 } });
const transcribing = (model: string) => ({
  type: "session.updated",
  session: { model: "voice", audio: { input: { transcription: { model } } } },
});

t.test(
  "transcriptions of speech are counted besides the responses, for the model that the settings name",
  async (t) => {
    t.match(usageOf(transcribing("write"), done, tokens, done, tokens), {
      in: { total: 200 },
      out: { total: 100 },
      besides: [{ model: "write", in: { total: 76, audio: 56 }, out: { total: 20 } }],
    });
    const before = {
      type: "transcription_session.created",
      session: { input_audio_transcription: { model: "write" } },
    };
    t.match(usageOf(before, tokens), {
      in: { total: 0 },
      out: { total: 0 },
      besides: [{ model: "write", in: { total: 38 }, out: { total: 10 } }],
    });
  },
);

t.test("each model that transcribes has its own sum; without settings it is the session's own", async (t) => {
  const usage = usageOf(tokens, transcribing("a"), tokens, transcribing("b"), tokens, tokens);
  t.same(
    usage?.besides?.map(({ model, in: { total } }) => [model, total]),
    [
      [undefined, 38],
      ["a", 38],
      ["b", 76],
    ],
  );
});

t.test("a transcription that is billed by its duration has no tokens, and is not lost", async (t) => {
  const usage = usageOf(transcribing("whisper-1"), transcribed({ type: "duration", seconds: 60 }));
  t.match(usage, { in: { total: 0 }, besides: [{ model: "whisper-1", in: {}, out: {} }] });
});

t.test("a text that mentions an event is none", async (t) => {
  t.equal(usageOf({ type: "x", text: "session.updated response.done" }), undefined);
  t.equal(usageOf({ type: "session.updated" }, { ...tokens, usage: undefined }), undefined);
});

t.test("a report that no answer can have does not spoil the sum of the others", async (t) => {
  const absurd = { type: "response.done", response: { usage: { input_tokens: 2e9, output_tokens: 1 } } };
  const { in: input, out } = usageOf(done) ?? {};
  t.match(usageOf(absurd, done), { in: input, out });
  t.match(usageOf(done, absurd), { in: input, out });
  t.equal(usageOf(absurd), undefined);
  t.match(usageOf(done, transcribed({ type: "tokens", input_tokens: 1, output_tokens: 2e9 })), { in: input, out });
});
