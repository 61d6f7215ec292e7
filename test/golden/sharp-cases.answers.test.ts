/** Sharp cases of answers from Gemini, Claude and Responses: how they end, what they refuse, what they cost. */

import t from "tap";
import { asList, asObject, type JsonObject } from "../../src/wire/values.ts";
import type { ProtocolName } from "../support/vendor-sdks.ts";
import {
  at,
  candidate,
  chatStream,
  chunk,
  joinedAt,
  listAt,
  messageStream,
  PLAIN,
  plainly,
  refusalOf,
  responseOf,
  responseStream,
  send,
  streamOf,
  type Told,
  understood,
} from "./sharp-cases.ts";

const OTHERS = ["openai-chat", "openai-responses", "anthropic-messages"] as const;

const types = ({ values }: Told) => values.map(({ type }) => type);
const usageMetadata = { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 };

t.test("17: a STOP on Gemini's first chunk does not end the answer", async (t) => {
  const stream = streamOf("gemini", [
    candidate([{ text: "One" }], "STOP"),
    candidate([{ text: " two" }]),
    candidate([{ text: " three" }], "STOP", { usageMetadata }),
  ]);
  for (const client of OTHERS) {
    const told = plainly(client, "gemini").streamed(stream);
    const { text, finish } = await understood(client, told);
    t.same([text, finish], ["One two three", "stop"], client);
  }
  const chat = plainly("openai-chat", "gemini").streamed(stream);
  t.same(
    chat.values.map((value) => at(value, "choices.0.finish_reason")).filter((reason) => reason),
    ["stop"],
    "one end, after the last text",
  );
});

t.test("18: a functionCall that ends with STOP has each protocol's finish reason for calls", async (t) => {
  const answer = candidate([{ functionCall: { id: "g1", name: "f", args: { a: 1 } } }], "STOP");
  const chat = plainly("openai-chat", "gemini");
  const claude = plainly("anthropic-messages", "gemini");
  const responses = plainly("openai-responses", "gemini");
  t.equal(at(chat.whole(answer), "choices.0.finish_reason"), "tool_calls");
  t.equal(claude.whole(answer)["stop_reason"], "tool_use");
  t.match(responses.whole(answer), {
    status: "completed",
    output: [{ type: "function_call", call_id: "g1", name: "f", arguments: '{"a":1}' }],
  });
  const stream = streamOf("gemini", [answer]);
  t.equal(joinedAt(chat.streamed(stream).values, "choices.0.finish_reason"), "tool_calls");
  t.equal(at(claude.streamed(stream).values.at(-2), "delta.stop_reason"), "tool_use");
  t.equal(at(responses.streamed(stream).values.at(-1), "response.status"), "completed");
});

t.test("21: calls of one function without ids get different ids, and results are matched by order", async (t) => {
  const call = (city: string) => ({ functionCall: { name: "get_weather", args: { city } } });
  const stream = streamOf("gemini", [candidate([call("Oslo")]), candidate([call("Rome"), call("Oslo")], "STOP")]);
  for (const client of OTHERS) {
    const { calls } = await understood(client, plainly(client, "gemini").streamed(stream));
    t.same(
      calls.map(({ args }) => at(args, "city")),
      ["Oslo", "Rome", "Oslo"],
    );
    t.equal(new Set(calls.map(({ id }) => id)).size, 3, `three ids for ${client}`);
    for (const { id } of calls) t.match(id, /^[a-zA-Z0-9_-]{1,64}$/);
    const again = await understood(client, plainly(client, "gemini").streamed(stream));
    t.same(again.calls, calls, "the same ids for the same answer");
  }
  // A Gemini client that keeps no ids sends results by order.
  const contents = [
    { role: "user", parts: [{ text: "Weather?" }] },
    { role: "model", parts: [call("Oslo"), call("Rome")] },
    {
      role: "user",
      parts: ["snow", "sun"].map((output) => ({ functionResponse: { name: "get_weather", response: { output } } })),
    },
  ];
  const { body } = send("gemini", { contents }, "openai-chat");
  const ids = listAt(body, "messages.1.tool_calls").map(({ id }) => id);
  t.same(
    listAt(body, "messages")
      .slice(2)
      .map(({ tool_call_id, content }) => [tool_call_id, content]),
    [
      [ids[0], "snow"],
      [ids[1], "sun"],
    ],
  );
});

t.test("25: a blocked prompt is an answer without content whose finish reason is the content filter", async (t) => {
  const blocked = { promptFeedback: { blockReason: "PROHIBITED_CONTENT" }, usageMetadata, modelVersion: "m" };
  const whole = (client: ProtocolName) => plainly(client, "gemini").whole(blocked);
  t.match(whole("openai-chat"), {
    choices: [{ index: 0, finish_reason: "content_filter", message: { role: "assistant" } }],
    usage: { prompt_tokens: 100 },
  });
  t.equal(at(whole("openai-chat"), "choices.0.message.content"), null);
  const why = "The prompt was blocked: PROHIBITED_CONTENT.";
  t.equal(at(whole("openai-chat"), "choices.0.message.refusal"), why);
  t.match(whole("anthropic-messages"), { stop_details: { type: "refusal", explanation: why } });
  t.match(whole("anthropic-messages"), { stop_reason: "refusal", usage: { input_tokens: 100 } });
  t.same(whole("anthropic-messages")["content"], []);
  t.match(whole("openai-responses"), { status: "incomplete", incomplete_details: { reason: "content_filter" } });
  t.match(whole("openai-responses")["output"], [{ type: "message", content: [{ type: "refusal", refusal: why }] }]);
  for (const client of OTHERS) {
    const told = plainly(client, "gemini").streamed(streamOf("gemini", [blocked]));
    t.equal(told.error, undefined);
    const { text, finish, calls } = await understood(client, told);
    t.same([text, finish, calls], ["", "filter", []], client);
    t.match(told.text, why, "streamed as well as whole");
  }
});

t.test("an answer of Gemini's that is interrupted after a text does not look complete", async (t) => {
  for (const reason of ["OTHER", "LANGUAGE", "NO_IMAGE", "IMAGE_OTHER", "IMAGE_SAFETY", "SOMETHING_NEW"]) {
    const answer = candidate([{ text: "Half of" }], reason, { usageMetadata });
    for (const client of OTHERS) {
      const told = plainly(client, "gemini").streamed(streamOf("gemini", [answer]));
      const { text, finish } = await understood(client, told);
      t.same([told.error, text, finish], [undefined, "Half of", "filter"], `${reason} to ${client}`);
    }
    t.match(at(plainly("openai-chat", "gemini").whole(answer), "choices.0"), {
      finish_reason: "content_filter",
      message: { content: "Half of", refusal: new RegExp(reason) },
    });
    t.match(plainly("anthropic-messages", "gemini").whole(answer), {
      stop_reason: "refusal",
      stop_details: { explanation: new RegExp(reason) },
    });
    t.match(plainly("openai-responses", "gemini").whole(answer), {
      status: "incomplete",
      incomplete_details: { reason: "content_filter" },
      output: [{ content: [{ text: "Half of" }, { type: "refusal", refusal: new RegExp(reason) }] }],
    });
  }
});

t.test("an answer with an image alone is not an empty one for Claude's clients", async (t) => {
  const picture = { inlineData: { mimeType: "image/png", data: "aGk=" } };
  const thought = { text: "Hm.", thought: true };
  const word = "[The model made an image, which a message cannot show in this protocol.]";
  for (const [parts, text] of [
    [[picture], word],
    [[thought, { ...picture, thoughtSignature: "c2ln" }, picture], word],
    [[{ text: "Here it is." }, picture], "Here it is."],
    [[picture, { text: "Here it is." }], "Here it is."],
  ] as const) {
    const answer = candidate(parts, "STOP", { usageMetadata });
    const claude = plainly("anthropic-messages", "gemini");
    const whole = claude.whole(answer);
    t.same([...new Set(claude.losses())], ["content.media"]);
    t.same(
      listAt(whole, "content").flatMap((block) => (block["type"] === "text" ? [block["text"]] : [])),
      [text],
    );
    t.equal(whole["stop_reason"], "end_turn");
    const told = plainly("anthropic-messages", "gemini").streamed(streamOf("gemini", [answer]));
    const seen = await understood("anthropic-messages", told);
    t.same([told.error, seen.text, seen.finish], [undefined, text, "stop"]);
  }
});

t.test("26: partial arguments become valid JSON with the keys in order and each string escaped once", async (t) => {
  const pieces = (partialArgs: JsonObject[], more: JsonObject = { willContinue: true }) =>
    candidate([{ functionCall: { ...(partialArgs.length > 0 ? { partialArgs } : {}), ...more } }]);
  const stream = streamOf("gemini", [
    pieces([], { name: "book", id: "g1", willContinue: true }),
    pieces([{ jsonPath: "$.city", stringValue: 'O"s', willContinue: true }]),
    pieces([{ jsonPath: "$.city", stringValue: "lo\n\\", willContinue: true }]),
    pieces([{ jsonPath: "$.city", stringValue: "" }]),
    pieces([
      { jsonPath: "$.days", numberValue: 2.5 },
      { jsonPath: "$.guests[0].name", stringValue: "é" },
    ]),
    pieces([
      { jsonPath: "$.guests[1].name", stringValue: "b" },
      { jsonPath: "$.vip", boolValue: true },
    ]),
    pieces([], {}),
    candidate([], "STOP"),
  ]);
  const chat = plainly("openai-chat", "gemini").streamed(stream);
  const args = joinedAt(chat.values, "choices.0.delta.tool_calls.0.function.arguments");
  t.same(JSON.parse(args), { city: 'O"slo\n\\', days: 2.5, guests: [{ name: "é" }, { name: "b" }], vip: true });
  t.ok(args.replaceAll(/\s/g, "").startsWith('{"city":"O\\"slo\\n\\\\","days":2.5,"guests":'), args);
  for (const client of OTHERS)
    t.same((await understood(client, plainly(client, "gemini").streamed(stream))).calls, [
      { name: "book", args: JSON.parse(args), id: "g1" },
    ]);
});

t.test("27: two candidates are two choices for Chat, and a 400 for Claude", async (t) => {
  const ask = { messages: [{ role: "user", content: "Hi" }], n: 2 };
  const sent = send("openai-chat", ask, "gemini");
  t.equal(at(sent.body, "generationConfig.candidateCount"), 2);
  const one = (index: number, text: string, finishReason?: string) => ({
    index,
    content: { role: "model", parts: [{ text }] },
    ...(finishReason ? { finishReason } : {}),
  });
  const stream = streamOf("gemini", [
    { candidates: [one(0, "He"), one(1, "Ta")], responseId: "r1" },
    { candidates: [one(1, "lk", "MAX_TOKENS")], responseId: "r1" },
    { candidates: [one(0, "y", "STOP")], responseId: "r1", usageMetadata },
  ]);
  const { values } = sent.streamed(stream);
  const uses = (index: number, member: string) =>
    values
      .flatMap((value) => listAt(value, "choices"))
      .filter((choice) => choice["index"] === index)
      .map((choice) => at(choice, member) ?? "")
      .join("");
  t.same(
    [0, 1].map((index) => [uses(index, "delta.content"), uses(index, "finish_reason")]),
    [
      ["Hey", "stop"],
      ["Talk", "length"],
    ],
  );
  const wholes = sent.whole({ candidates: [one(0, "Hey", "STOP"), one(1, "Talk", "MAX_TOKENS")] });
  t.same(
    listAt(wholes, "choices").map((choice) => [choice["index"], at(choice, "message.content")]),
    [
      [0, "Hey"],
      [1, "Talk"],
    ],
  );
  t.match(refusalOf("openai-chat", ask, "anthropic-messages"), { status: 400, param: "n" });
  t.match(refusalOf("gemini", { ...PLAIN.gemini, generationConfig: { candidateCount: 2 } }, "anthropic-messages"), {
    status: 400,
    param: "generationConfig.candidateCount",
  });
});

t.test("52: a refusal is text with the stop_reason refusal for Claude's clients, and refusal for Chat's", async (t) => {
  const chat = chatStream([
    chunk({ role: "assistant", content: "", refusal: null }),
    chunk({ refusal: "I can" }),
    chunk({ refusal: "not." }),
    chunk({}, "stop"),
  ]);
  const part = { type: "refusal", refusal: "I cannot." };
  const message = { type: "message", id: "msg_1", role: "assistant", status: "completed", content: [part] };
  const place = { item_id: "msg_1", output_index: 0, content_index: 0 };
  const responses = streamOf("openai-responses", [
    { type: "response.created", response: responseOf([], { status: "in_progress" }) },
    { type: "response.output_item.added", output_index: 0, item: { ...message, content: [] } },
    { type: "response.content_part.added", ...place, part: { type: "refusal", refusal: "" } },
    { type: "response.refusal.delta", ...place, delta: "I can" },
    { type: "response.refusal.delta", ...place, delta: "not." },
    { type: "response.refusal.done", ...place, refusal: "I cannot." },
    { type: "response.content_part.done", ...place, part },
    { type: "response.output_item.done", output_index: 0, item: message },
    { type: "response.completed", response: responseOf([message]) },
  ]);
  for (const [vendor, stream] of [
    ["openai-chat", chat],
    ["openai-responses", responses],
  ] as const) {
    const claude = plainly("anthropic-messages", vendor).streamed(stream);
    t.equal(joinedAt(claude.values, "delta.text"), "I cannot.", vendor);
    t.equal(joinedAt(claude.values, "delta.stop_reason"), "refusal");
  }
  const told = plainly("openai-chat", "openai-responses").streamed(responses);
  t.equal(joinedAt(told.values, "choices.0.delta.refusal"), "I cannot.");
  t.equal(joinedAt(told.values, "choices.0.delta.content"), "");
  t.match(plainly("openai-chat", "openai-responses").whole(responseOf([message])), {
    choices: [{ message: { content: null, refusal: "I cannot." }, finish_reason: "stop" }],
  });
  const back = plainly("openai-responses", "openai-chat").streamed(chat);
  t.match(at(back.values.at(-1), "response.output.0.content"), [part]);
});

t.test(
  "53: Claude's cached and cache-creation tokens are part of OpenAI's prompt, and are the same when translated back",
  async (t) => {
    const usage = {
      input_tokens: 10,
      cache_read_input_tokens: 100,
      cache_creation_input_tokens: 50,
      cache_creation: { ephemeral_5m_input_tokens: 30, ephemeral_1h_input_tokens: 20 },
      output_tokens: 7,
    };
    const message = { id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "end_turn", usage };
    const answer = { ...message, content: [{ type: "text", text: "Hi" }] };
    const chat = plainly("openai-chat", "anthropic-messages").whole(answer);
    t.same(chat["usage"], {
      prompt_tokens: 160,
      completion_tokens: 7,
      total_tokens: 167,
      prompt_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
      completion_tokens_details: { reasoning_tokens: 0 },
    });
    t.match(plainly("openai-responses", "anthropic-messages").whole(answer)["usage"], {
      input_tokens: 160,
      input_tokens_details: { cached_tokens: 100, cache_write_tokens: 50 },
      output_tokens: 7,
      total_tokens: 167,
    });
    for (const vendor of ["openai-chat", "openai-responses"] as const) {
      const told = plainly(vendor, "anthropic-messages").whole(answer);
      t.match(
        plainly("anthropic-messages", vendor).whole(told)["usage"],
        { input_tokens: 10, cache_read_input_tokens: 100, cache_creation_input_tokens: 50, output_tokens: 7 },
        `the same four numbers back from ${vendor}`,
      );
    }
  },
);

t.test("54: Gemini's tokens for tools and reasoning are part of OpenAI's totals", async (t) => {
  const answer = candidate([{ text: "Hi" }], "STOP", {
    usageMetadata: {
      promptTokenCount: 100,
      toolUsePromptTokenCount: 7,
      candidatesTokenCount: 20,
      thoughtsTokenCount: 30,
      totalTokenCount: 157,
    },
  });
  t.match(plainly("openai-chat", "gemini").whole(answer)["usage"], {
    prompt_tokens: 107,
    completion_tokens: 50,
    total_tokens: 157,
    completion_tokens_details: { reasoning_tokens: 30 },
  });
  t.match(plainly("openai-responses", "gemini").whole(answer)["usage"], {
    input_tokens: 107,
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 30 },
    total_tokens: 157,
  });
  t.match(plainly("anthropic-messages", "gemini").whole(answer)["usage"], {
    input_tokens: 107,
    output_tokens: 50,
    output_tokens_details: { thinking_tokens: 30 },
  });
});

t.test("55: message_delta's usage replaces message_start's, be it smaller or larger", async (t) => {
  const text: [JsonObject, JsonObject] = [
    { type: "text", text: "" },
    { type: "text_delta", text: "Hi" },
  ];
  const cases: [JsonObject, JsonObject, number, number][] = [
    [{ input_tokens: 10, output_tokens: 1 }, { output_tokens: 25 }, 10, 25],
    [{ input_tokens: 10, output_tokens: 8 }, { input_tokens: 500, output_tokens: 25 }, 500, 25],
    [{ input_tokens: 500, output_tokens: 30 }, { input_tokens: 10, output_tokens: 2 }, 10, 2],
  ];
  for (const [start, end, prompt, completion] of cases) {
    const stream = streamOf("anthropic-messages", messageStream([text], "end_turn", [start, end]));
    const chat = plainly("openai-chat", "anthropic-messages").streamed(stream);
    t.match(chat.values.at(-1), {
      choices: { length: 0 },
      usage: { prompt_tokens: prompt, completion_tokens: completion },
    });
    const responses = plainly("openai-responses", "anthropic-messages").streamed(stream);
    t.match(at(responses.values.at(-1), "response.usage"), { input_tokens: prompt, output_tokens: completion });
    const gemini = plainly("gemini", "anthropic-messages").streamed(stream);
    t.match(gemini.values.at(-1), { usageMetadata: { promptTokenCount: prompt, candidatesTokenCount: completion } });
  }
});

t.test(
  "57: an encoded Responses stream counts without a gap, keeps its ids and ends with its complete content",
  async (t) => {
    const claude = streamOf(
      "anthropic-messages",
      messageStream(
        [
          [
            { type: "thinking", thinking: "", signature: "" },
            { type: "thinking_delta", thinking: "Hm." },
            { type: "signature_delta", signature: "c2ln" },
          ],
          [{ type: "redacted_thinking", data: "ZGF0YQ==" }],
          [
            { type: "text", text: "" },
            { type: "text_delta", text: "Let me" },
            { type: "text_delta", text: " look." },
          ],
          [
            { type: "tool_use", id: "toolu_1", name: "f", input: {} },
            { type: "input_json_delta", partial_json: '{"a":1}' },
          ],
          [{ type: "tool_use", id: "toolu_2", name: "g", input: {} }],
        ],
        "tool_use",
      ),
    );
    const told = plainly("openai-responses", "anthropic-messages").streamed(claude);
    t.same(
      told.values.map((value) => value["sequence_number"]),
      told.values.map((_, n) => n),
    );
    const ids = new Set(told.values.map((value) => at(value, "response.id")).filter((id) => id !== undefined));
    t.equal(ids.size, 1);
    const done = told.values.filter(({ type }) => type === "response.output_item.done").map(({ item }) => item);
    const added = told.values.filter(({ type }) => type === "response.output_item.added").map(({ item }) => item);
    t.same(
      added.map((item) => asObject(item)?.["id"]),
      done.map((item) => asObject(item)?.["id"]),
    );
    t.equal(new Set(done.map((item) => asObject(item)?.["id"])).size, 5);
    t.same(at(told.values.at(-1), "response.output"), done);
    t.same(types(told).filter((type) => /added|done/.test(String(type)) && /item/.test(String(type))).length, 10);
    for (const value of told.values) {
      const item = asObject(value["item"]);
      const known = item ?? asObject(asList(added)[Number(value["output_index"])]);
      if (value["item_id"] !== undefined) t.equal(value["item_id"], known?.["id"]);
    }
    t.match(await understood("openai-responses", told), {
      text: "Let me look.",
      order: "TCC",
      calls: [
        { name: "f", args: { a: 1 }, id: "toolu_1" },
        { name: "g", args: {}, id: "toolu_2" },
      ],
    });
    // What another vendor's stream leaves out is there, too.
    const terse = plainly("openai-responses", "openai-chat").streamed(
      chatStream([chunk({ content: "Hi" }), chunk({}, "stop")]),
    );
    t.equal((await understood("openai-responses", terse)).text, "Hi");
    t.equal(
      (
        await understood(
          "openai-chat",
          plainly("openai-chat", "openai-responses").streamed(
            streamOf(
              "openai-responses",
              responseStream([{ type: "function_call", id: "fc_1", call_id: "c1", name: "f", arguments: "{}" }]),
            ),
          ),
        )
      ).calls.length,
      1,
    );
  },
);
