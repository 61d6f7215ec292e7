import t from "tap";
import anthropic from "../../plugins/protocols/anthropic-messages/index.ts";
import chat from "../../plugins/protocols/openai-chat/index.ts";
import responses from "../../plugins/protocols/openai-responses/index.ts";
import { StreamUsage } from "../../src/core/stream-usage.ts";

const stream = (...events: object[]) =>
  Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(""));
const tokens = { input_tokens: 14, output_tokens: 45, input_token_details: { audio_tokens: 10 } };
const transcript = stream({ delta: "hi" }, { type: "transcript.text.done", usage: tokens });

t.test("usage is parsed by the protocol that finds a total, wherever the bytes are split", async (t) => {
  for (let at = 0; at <= transcript.length; at += 7) {
    const usage = new StreamUsage([chat, responses]);
    usage.push(transcript.subarray(0, at));
    usage.push(transcript.subarray(at));
    t.match(usage.usage, { in: { total: 14, audio: 10 }, out: { total: 45 } });
  }
  const other = new StreamUsage([chat]);
  other.push(transcript);
  t.match(other.usage, { in: {}, raw: tokens }, "as reported");
});

t.test(
  "usage of several events is merged, and a client that disconnects gets what was reported until then",
  async (t) => {
    const usage = new StreamUsage([chat, anthropic]);
    t.equal(usage.usage, undefined);
    usage.push(stream({ type: "message_start", message: { usage: { input_tokens: 5, output_tokens: 1 } } }));
    t.match(usage.usage, { in: { total: 5 } });
    usage.push(stream({ type: "message_delta", usage: { output_tokens: 9 } }));
    t.match(usage.usage, { in: { total: 5 }, out: { total: 9 } });
  },
);

t.test("a stream has come to its end with the terminal event of any of the protocols, as its last event", async (t) => {
  const usage = new StreamUsage([anthropic, chat]);
  t.notOk(usage.hasTerminated);
  usage.push(stream({ choices: [] }));
  t.notOk(usage.hasTerminated);
  usage.push(Buffer.from("data: [DONE]\n"));
  t.notOk(usage.hasTerminated, "the event is not whole");
  usage.push(Buffer.from("\n"));
  t.ok(usage.hasTerminated);
  usage.push(stream({ choices: [] }));
  t.notOk(usage.hasTerminated);
  usage.push(Buffer.from('event: message_stop\ndata: {"type":"message_stop"}\n\n'));
  t.ok(usage.hasTerminated);
});

t.test("an event without JSON has no usage, and one that is too large ends parsing, which is reported", async (t) => {
  const usage = new StreamUsage([responses]);
  usage.push(Buffer.from('data: {"usage":secret}\n\n'));
  t.same([usage.usage, usage.fault], [undefined, undefined]);
  usage.push(transcript);
  t.match(usage.usage, { in: { total: 14 } });
  const large = new StreamUsage([responses]);
  large.push(Buffer.alloc(2 * 1024 * 1024, "x"));
  large.push(transcript);
  t.type(large.fault, "string");
  t.equal(large.usage, undefined);
});
