import OpenAI from "openai";
import t from "tap";
import openaiChat from "../../../../plugins/protocols/openai-chat/index.ts";
import openaiCompletions from "../../../../plugins/protocols/openai-completions/index.ts";
import type { ClientTranslation, Translation } from "../../../../src/translation/codec.ts";
import type { Event } from "../../../../src/translation/events.ts";
import { runAtOnce } from "../../../../src/translation/steps.ts";
import { receiving } from "../../../support/openai-sdks.ts";
import { eventsIn, recorded } from "../../../support/recorded.ts";
import { sample } from "../../../support/sample.ts";
import { asStream, context, source, streamed, written } from "../openai-chat/fixture.ts";

const text = openaiCompletions.clientTranslation as ClientTranslation;
const chat = openaiChat.translation as Translation;
const COUNTING = { stream_options: { include_usage: true } };

interface Completion extends Record<string, unknown> {
  choices: { index: number; text: string; finish_reason: string | null; logprobs: unknown }[];
}

const whole = (events: readonly Event[], to = context()): Completion =>
  JSON.parse(runAtOnce(text.response.encode(events, to))) as Completion;

/** What a client of the SDK holds when it has put the pieces of each choice together. */
async function accumulated(events: readonly Event[]): Promise<Completion> {
  const client = receiving(OpenAI, asStream(written(text, events, context(COUNTING))));
  const body: Completion = { choices: [] };
  for await (const { choices, usage, ...head } of await client.completions.create({
    model: "m",
    prompt: "",
    stream: true,
  })) {
    Object.assign(body, head, usage ? { usage } : {});
    for (const { index, text, finish_reason } of choices) {
      body.choices[index] ??= { text: "", index, logprobs: null, finish_reason: null };
      body.choices[index].text += text;
      body.choices[index].finish_reason = finish_reason ?? null;
    }
  }
  return body;
}

const response: Event[] = [
  { type: "start", id: "msg_1", model: "claude", created: 5 },
  { type: "open", block: 0, choice: 0, kind: "reasoning" },
  { type: "text", block: 0, text: "Hm." },
  { type: "close", block: 0 },
  { type: "open", block: 1, choice: 0, kind: "text" },
  { type: "text", block: 1, text: " upon" },
  { type: "text", block: 1, text: " a time" },
  { type: "close", block: 1 },
  { type: "finish", choice: 0, reason: "length" },
  { type: "usage", usage: { in: { total: 1 }, out: { total: 2 }, raw: {} } },
  { type: "end" },
];

t.test("an answer is a continued text, and reasoning is declared lost", async (t) => {
  const to = context();
  t.same(whole(response, to), {
    id: "cmpl-msg_1",
    object: "text_completion",
    created: 5,
    model: "asked-model",
    choices: [{ text: " upon a time", index: 0, logprobs: null, finish_reason: "length" }],
    usage: {
      prompt_tokens: 1,
      completion_tokens: 2,
      total_tokens: 3,
      completion_tokens_details: { reasoning_tokens: 0 },
    },
  });
  t.same(to.lost, ["reasoning"]);
});

t.test("an accumulated stream equals what is written whole, and ends with [DONE]", async (t) => {
  t.same(await accumulated(response), whole(response));
  const frames = written(text, response);
  t.equal(frames.at(-1)?.data, "[DONE]");
  t.notOk(
    frames.some(({ data }) => data.includes('"usage"')),
    "usage is only written where it was requested",
  );
});

t.test("the prompt comes before the answer where the client requests it", async (t) => {
  t.equal(whole(response, context({ prompt: "Once", echo: true })).choices[0]?.text, "Once upon a time");
});

t.test("log probabilities are parallel lists", async (t) => {
  const tokens = [
    {
      token: " a",
      logprob: -1,
      top_logprobs: [
        { token: " a", logprob: -1 },
        { token: " b", logprob: -2 },
      ],
    },
    { token: " c", logprob: -3, top_logprobs: [null, { token: { toString: 1, valueOf: 1 }, logprob: -4 }] },
  ];
  const events: Event[] = [
    { type: "start", id: "1", model: "m" },
    { type: "open", block: 0, choice: 0, kind: "text" },
    { type: "text", block: 0, text: " a c", logprobs: tokens },
    { type: "text", block: 0, text: " a c", logprobs: tokens.slice(1) },
    { type: "finish", choice: 0, reason: "stop" },
    { type: "end" },
  ];
  const to = context();
  to.conversation.logprobs = 2;
  t.same(whole(events, to).choices[0]?.logprobs, {
    tokens: [" a", " c", " c"],
    token_logprobs: [-1, -3, -3],
    top_logprobs: [{ " a": -1, " b": -2 }, {}, {}],
    text_offset: [0, 2, 4],
  });
});

t.test("sources and the vendor's details about the end are declared lost", async (t) => {
  const lost = (finish: Omit<Event & { type: "finish" }, "type" | "choice">, more: Event[] = []) => {
    const to = context();
    whole(
      [
        ...response.slice(0, 1),
        ...response.slice(4, 8),
        ...more,
        { type: "finish", choice: 0, ...finish },
        { type: "end" },
      ],
      to,
    );
    return to.lost;
  };
  t.same(lost({ reason: "stop" }, [{ type: "citation", block: 1, citation: { url: "u" } }]), ["citations"]);
  t.same(lost({ reason: "other", message: "It recites." }), ["finish_reason"]);
  t.same(lost({ reason: "stop_sequence", stopSequence: "END" }), ["stop_sequence"]);
  t.same(lost({ reason: "refusal", message: "No." }), ["finish_reason"]);
  t.same(lost({ reason: "pause" }), ["finish_reason"]);
  t.same(lost({ reason: "tool_calls" }), []);
});

t.test("the log probabilities of many pieces are in order", async (t) => {
  const names = Array.from({ length: 20_000 }, (_, n) => `${n}`);
  const events: Event[] = [
    ...response.slice(0, 1),
    { type: "open", block: 0, choice: 0, kind: "text" },
    ...names.map((token): Event => ({ type: "text", block: 0, text: token, logprobs: [{ token, logprob: -1 }] })),
    { type: "finish", choice: 0, reason: "stop" },
    { type: "end" },
  ];
  const likely = whole(events).choices[0]?.logprobs as { tokens: string[]; text_offset: number[] };
  t.same(likely.tokens, names);
  t.equal(likely.text_offset.at(-1), names.slice(0, -1).join("").length);
});

t.test("every recorded chat answer reaches a client of text completions", async (t) => {
  const different: string[] = [];
  for (const { id, kinds, status, body } of sample(recorded("openai-chat"))) {
    if (status >= 300 || id.includes("test_invalid_response")) continue;
    const events = kinds.includes("stream")
      ? streamed(chat, eventsIn(body))
      : runAtOnce(chat.response.decode(Buffer.from(body), source));
    if (events.at(-1)?.type === "error") continue;
    const textsOf = ({ choices }: { choices: { text: string }[] }) => choices.map(({ text }) => text).join("\0");
    if (textsOf(await accumulated(events)) !== textsOf(whole(events))) different.push(id);
  }
  t.same(different, []);
});

t.test("a long text is written in many steps", async (t) => {
  const piece = "Is it 'cold'? 😀\n".repeat(10_000);
  const events: Event[] = [
    { type: "start", id: "x", model: "m" },
    { type: "open", block: 0, choice: 0, kind: "text" },
    ...Array.from({ length: 40 }, (): Event => ({ type: "text", block: 0, text: piece })),
    { type: "close", block: 0 },
    { type: "finish", choice: 0, reason: "stop" },
    { type: "end" },
  ];
  const steps = text.response.encode(events, context());
  let count = 0;
  let step = steps.next();
  for (; !step.done; step = steps.next()) count++;
  t.ok((JSON.parse(step.value) as Completion).choices[0]?.text === piece.repeat(40));
  t.ok(count > 8, `${count} steps`);
});
