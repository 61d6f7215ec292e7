/** Sharp cases of Chat streams, whose dialects are many, on their way to clients of every protocol. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import {
  at,
  candidate,
  chatStream,
  chunk,
  joinedAt,
  listAt,
  messageStream,
  plainly,
  responseOf,
  responseStream,
  streamOf,
  type Told,
  understood,
} from "./sharp-cases.ts";

const OTHERS = ["openai-responses", "anthropic-messages", "gemini"] as const;

/** A piece of a call's arguments. */
const piece = (index: number, args: string): JsonObject => ({
  tool_calls: [{ index, function: { arguments: args } }],
});

/** The first piece of a call. */
const call = (index: number | undefined, id: string, name: string, args = ""): JsonObject => ({
  tool_calls: [
    { ...(index === undefined ? {} : { index }), id, type: "function", function: { name, arguments: args } },
  ],
});

const ROLE = chunk({ role: "assistant", content: "" });
const partial = ({ values }: Told) => joinedAt(values, "delta.partial_json");

t.test(
  "a call with invalid JSON arguments is passed on and ends in an error, unless the length limit truncated it",
  async (t) => {
    const calls = [ROLE, chunk(call(0, "c1", "write", '{"path":"/tmp/a","content":"hal'))];
    for (const [reason, stop] of [
      ["tool_calls", undefined],
      ["stop", undefined],
      ["length", "max_tokens"],
    ] as const) {
      const told = plainly("anthropic-messages", "openai-chat").streamed(chatStream([...calls, chunk({}, reason)]));
      t.equal(partial(told), '{"path":"/tmp/a","content":"hal', reason);
      t.equal(told.error?.code, stop === undefined ? "upstream_invalid" : undefined, reason);
      const ends = told.values.filter(({ type }) => type === "message_delta" || type === "message_stop");
      t.match(ends, stop === undefined ? { length: 0 } : [{ delta: { stop_reason: stop } }, {}], reason);
      t.equal(ends.length, stop === undefined ? 0 : 2, reason);
    }
  },
);

t.test("2: a call without any arguments has an empty object of them in every protocol", async (t) => {
  const claude = streamOf(
    "anthropic-messages",
    messageStream(
      [
        [
          { type: "tool_use", id: "toolu_1", name: "now", input: {} },
          { type: "input_json_delta", partial_json: "" },
        ],
      ],
      "tool_use",
    ),
  );
  const chat = plainly("openai-chat", "anthropic-messages").streamed(claude);
  t.equal(joinedAt(chat.values, "choices.0.delta.tool_calls.0.function.arguments"), "{}");
  const responses = plainly("openai-responses", "anthropic-messages").streamed(claude);
  t.equal(at(responses.values.at(-1), "response.output.0.arguments"), "{}");
  const gemini = plainly("gemini", "anthropic-messages").streamed(claude);
  t.same(
    gemini.values.flatMap((value) => listAt(value, "candidates.0.content.parts")).map((part) => part["functionCall"]),
    [{ id: "toolu_1", name: "now", args: {} }],
  );
  const back = plainly("anthropic-messages", "openai-chat").streamed(
    chatStream([ROLE, chunk(call(0, "c1", "now")), chunk({}, "tool_calls")]),
  );
  t.same((await understood("anthropic-messages", back)).calls, [{ name: "now", args: {}, id: "c1" }]);
});

t.test("3: arguments in an answer keep every digit, space and order of keys", async (t) => {
  const args = '{"b": 1.0, "a": 12345678901234567890}';
  for (const step of [1, 5, 100]) {
    const pieces = args.match(new RegExp(`.{1,${step}}`, "g")) ?? [];
    const stream = chatStream([
      ROLE,
      chunk(call(0, "c1", "f")),
      ...pieces.map((text) => chunk(piece(0, text))),
      chunk({}, "tool_calls"),
    ]);
    t.equal(partial(plainly("anthropic-messages", "openai-chat").streamed(stream)), args);
    const responses = plainly("openai-responses", "openai-chat").streamed(stream);
    t.equal(at(responses.values.at(-1), "response.output.0.arguments"), args);
    t.ok(plainly("gemini", "openai-chat").streamed(stream).text.includes(`"args":${args}`), "raw for Gemini's clients");
  }
});

t.test("4: arguments and texts split inside escapes, surrogates and UTF-8 are joined correctly", async (t) => {
  const args = '{"a":"\\u00e9 \\ud83d\\ude00 é 😀 漢"}';
  // Cut between the halves of a pair, too: a JSON escape of half a pair is what vendors send then.
  const units = args.split("");
  const stream = chatStream([
    ROLE,
    chunk({ content: "\ud83d" }),
    chunk({ content: "\ude00" }),
    chunk(call(0, "c1", "f")),
    ...units.map((unit) => chunk(piece(0, unit))),
    chunk({}, "tool_calls"),
  ]);
  const raw = Buffer.from(stream);
  for (const step of [1, 2, 3, raw.length]) {
    const claude = plainly("anthropic-messages", "openai-chat").streamed(raw, step);
    t.equal(partial(claude), args);
    t.equal(joinedAt(claude.values, "delta.text"), "😀");
    const responses = plainly("openai-responses", "openai-chat").streamed(raw, step);
    t.equal(at(responses.values.at(-1), "response.output.1.arguments"), args);
    t.equal(at(responses.values.at(-1), "response.output.0.content.0.text"), "😀");
    const gemini = plainly("gemini", "openai-chat").streamed(raw, step);
    for (const { text } of [claude, responses, gemini]) t.notOk(text.includes("\ufffd"), "no replacement character");
    const [uses] = (await understood("gemini", gemini)).calls;
    t.same(uses?.args, { a: "é 😀 é 😀 漢" });
  }
});

t.test("5: interleaved calls are blocks one after the other, in the order of their index", async (t) => {
  const stream = chatStream([
    ROLE,
    chunk(call(0, "c0", "first")),
    chunk(call(1, "c1", "second")),
    chunk(piece(1, '{"b":')),
    chunk(piece(0, '{"a":')),
    chunk(piece(1, "2}")),
    chunk(piece(0, "1}")),
    chunk({}, "tool_calls"),
  ]);
  const claude = plainly("anthropic-messages", "openai-chat").streamed(stream);
  const grammar = claude.values.map(({ type, index }) => `${type} ${index ?? ""}`.trim());
  t.same(
    grammar.filter((each) => /start|stop/.test(each)),
    [
      "message_start",
      "content_block_start 0",
      "content_block_stop 0",
      "content_block_start 1",
      "content_block_stop 1",
      "message_stop",
    ],
  );
  const expected = [
    { name: "first", args: { a: 1 }, id: "c0" },
    { name: "second", args: { b: 2 }, id: "c1" },
  ];
  t.same((await understood("anthropic-messages", claude)).calls, expected);
  for (const client of ["openai-responses", "gemini"] as const)
    t.same((await understood(client, plainly(client, "openai-chat").streamed(stream))).calls, expected, client);
});

t.test("5: interleaved items of a Responses stream are blocks one after the other, too", async (t) => {
  const item = (n: number, args: string) => ({
    type: "function_call",
    id: `fc_${n}`,
    call_id: `c${n}`,
    name: `f${n}`,
    arguments: args,
  });
  const items = [item(0, '{"a":1}'), item(1, '{"b":2}')];
  const delta = (n: number, text: string) => ({
    type: "response.function_call_arguments.delta",
    item_id: `fc_${n}`,
    output_index: n,
    delta: text,
  });
  const added = (n: number) => ({ type: "response.output_item.added", output_index: n, item: item(n, "") });
  const done = (n: number) => ({ type: "response.output_item.done", output_index: n, item: items[n] });
  const [created] = responseStream([]);
  const stream = streamOf("openai-responses", [
    created,
    added(0),
    added(1),
    delta(1, '{"b":'),
    delta(0, '{"a":1}'),
    delta(1, "2}"),
    done(1),
    done(0),
    { type: "response.completed", response: responseOf(items) },
  ]);
  for (const client of ["openai-chat", "anthropic-messages", "gemini"] as const)
    t.same(
      (await understood(client, plainly(client, "openai-responses").streamed(stream))).calls,
      [
        { name: "f0", args: { a: 1 }, id: "c0" },
        { name: "f1", args: { b: 2 }, id: "c1" },
      ],
      client,
    );
});

t.test("6: calls without an index, as Mistral streams them, are counted", async (t) => {
  const stream = chatStream([
    ROLE,
    chunk(call(undefined, "a1", "f", '{"n":0}')),
    chunk(call(undefined, "a2", "f", '{"n":1}')),
    chunk(call(undefined, "a3", "g", '{"n":2}'), "tool_calls"),
  ]);
  const expected = ["a1", "a2", "a3"].map((id, n) => ({ name: n === 2 ? "g" : "f", args: { n }, id }));
  for (const client of OTHERS)
    t.same((await understood(client, plainly(client, "openai-chat").streamed(stream))).calls, expected, client);
  // Through another protocol and back, a Chat client's SDK gets the indices that it needs.
  const messages = messageStream(
    expected.map(({ id, name, args }) => [{ type: "tool_use", id, name, input: args }]),
    "tool_use",
  );
  const chat = plainly("openai-chat", "anthropic-messages").streamed(streamOf("anthropic-messages", messages));
  t.same(
    chat.values
      .flatMap((value) => listAt(value, "choices.0.delta.tool_calls"))
      .filter(({ id }) => id)
      .map(({ index }) => index),
    [0, 1, 2],
  );
});

t.test("7: an empty name, an empty id or a repeated id belongs to the same call", async (t) => {
  for (const more of [
    { id: "", type: "function" },
    { id: "c1", type: "function" },
    { id: "c1", type: null },
    { id: null },
  ]) {
    const again = (text: string, name: string | null) =>
      chunk({ tool_calls: [{ index: 0, ...more, function: { name, arguments: text } }] });
    const stream = chatStream([
      ROLE,
      chunk(call(0, "c1", "f")),
      again('{"a"', ""),
      again(":1", null),
      again("}", more.id === "" ? "" : "f"),
      chunk({}, "tool_calls"),
    ]);
    for (const client of OTHERS)
      t.same(
        (await understood(client, plainly(client, "openai-chat").streamed(stream))).calls,
        [{ name: "f", args: { a: 1 }, id: "c1" }],
        `${client} ${JSON.stringify(more)}`,
      );
  }
});

t.test("8: a role in every chunk starts one message only", async (t) => {
  const stream = chatStream([
    chunk({ role: "assistant", content: "Hel" }),
    chunk({ role: "assistant", content: "lo" }),
    chunk({ role: "assistant", content: "" }, "stop"),
  ]);
  const claude = plainly("anthropic-messages", "openai-chat").streamed(stream);
  t.equal(claude.values.filter(({ type }) => type === "message_start").length, 1);
  t.equal(joinedAt(claude.values, "delta.text"), "Hello");
  const responses = plainly("openai-responses", "openai-chat").streamed(stream);
  t.equal(responses.values.filter(({ type }) => type === "response.created").length, 1);
  const gemini = streamOf("gemini", [candidate([{ text: "Hel" }]), candidate([{ text: "lo" }], "STOP")]);
  const chat = plainly("openai-chat", "gemini").streamed(gemini);
  t.equal(chat.values.filter((value) => at(value, "choices.0.delta.role")).length, 1);
});

t.test("9: text on the chunk of the finish_reason comes before the end in every protocol", async (t) => {
  const stream = chatStream([ROLE, chunk({ content: "All" }), chunk({ content: " of it." }, "length")]);
  for (const client of OTHERS) {
    const { text, finish } = await understood(client, plainly(client, "openai-chat").streamed(stream));
    t.same([text, finish], ["All of it.", "length"], client);
  }
  const called = chatStream([chunk({ role: "assistant", ...call(0, "c1", "f", "{}") }, "tool_calls")]);
  for (const client of OTHERS) {
    const { calls, finish } = await understood(client, plainly(client, "openai-chat").streamed(called));
    t.same([calls.length, finish], [1, "tool"], client);
  }
});

t.test("10: usage beside a choice, early or twice is reported once, and the last one counts", async (t) => {
  const usage = (prompt_tokens: number, completion_tokens: number) => ({
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  });
  const last = { ...chunk({}), choices: [], ...usage(11, 7) };
  const streams = {
    "beside the finish": [chunk({ role: "assistant", content: "Hi" }), chunk({}, "stop", usage(11, 7))],
    "before the last chunk": [chunk({ role: "assistant", content: "Hi" }, null, usage(11, 7)), chunk({}, "stop")],
    twice: [chunk({ role: "assistant", content: "Hi" }, null, usage(11, 1)), chunk({}, "stop", usage(11, 3)), last],
  };
  for (const [name, chunks] of Object.entries(streams)) {
    const stream = chatStream(chunks);
    const claude = plainly("anthropic-messages", "openai-chat").streamed(stream);
    const deltas = claude.values.filter(({ type }) => type === "message_delta");
    t.match(deltas, [{ usage: { input_tokens: 11, output_tokens: 7 } }], name);
    t.equal(deltas.length, 1);
    const responses = plainly("openai-responses", "openai-chat").streamed(stream);
    t.match(at(responses.values.at(-1), "response.usage"), { input_tokens: 11, output_tokens: 7, total_tokens: 18 });
    const gemini = plainly("gemini", "openai-chat").streamed(stream);
    t.match(gemini.values.at(-1), { usageMetadata: { promptTokenCount: 11, candidatesTokenCount: 7 } }, name);
  }
});

t.test("12: Azure's first chunk without choices neither starts the message nor starts it twice", async (t) => {
  const filters = {
    ...chunk({}),
    id: "",
    model: "",
    created: 0,
    choices: [],
    prompt_filter_results: [{ prompt_index: 0 }],
  };
  const stream = chatStream([filters, ROLE, chunk({ content: "Hi" }), chunk({}, "stop")]);
  const claude = plainly("anthropic-messages", "openai-chat").streamed(stream);
  const starts = claude.values.filter(({ type }) => type === "message_start");
  t.equal(starts.length, 1);
  t.match(at(starts[0], "message.id"), "msg_chatcmpl-1", "with the id of the answer, which only later chunks contain");
  const responses = plainly("openai-responses", "openai-chat").streamed(stream);
  t.equal(responses.values.filter(({ type }) => type === "response.created").length, 1);
  for (const client of OTHERS)
    t.equal((await understood(client, plainly(client, "openai-chat").streamed(stream))).text, "Hi", client);
});

t.test("15: a stream's line endings and fields do not change its content", async (t) => {
  const plain = chatStream([
    ROLE,
    chunk({ content: "Hé" }),
    chunk(call(0, "c1", "f", '{"a":1}')),
    chunk({}, "tool_calls"),
  ]);
  const pretty = (text: string) =>
    text.replaceAll(/^data: (\{.*)$/gm, (_, json: string) =>
      JSON.stringify(JSON.parse(json), null, 1)
        .split("\n")
        .map((line) => `data: ${line}`)
        .join("\n"),
    );
  const forms = {
    "CR LF": plain.replaceAll("\n", "\r\n"),
    CR: plain.replaceAll("\n", "\r"),
    "a byte order mark": `\ufeff${plain}`,
    comments: `: hello\n\n${plain.replaceAll("\n\n", "\n\n: OPENROUTER PROCESSING\n\n")}`,
    "no space": plain.replaceAll("data: ", "data:"),
    "many lines": pretty(plain),
    "other fields": plain.replaceAll("data: ", "id: 1\nretry: 10\ndata: "),
    "no blank line at the end": plain.trimEnd(),
  };
  for (const client of OTHERS) {
    const { values } = plainly(client, "openai-chat").streamed(plain);
    for (const [name, form] of Object.entries(forms))
      for (const step of [1, 7, form.length * 4])
        t.same(
          plainly(client, "openai-chat").streamed(form, step).values,
          values,
          `${name} for ${client}, split every ${step}`,
        );
  }
});
