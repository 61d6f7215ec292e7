import type OpenAI from "openai";
import t from "tap";
import protocol from "../../../../plugins/protocols/openai-chat/index.ts";
import { demoOf, withSdks } from "../../../support/openai-sdks.ts";

type Ask = OpenAI.ChatCompletionCreateParamsNonStreaming;

const PATH = "/v1/chat/completions";
const messages: Ask["messages"] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: [{ type: "text", text: "Grüße 🎈 to all of you" }] },
];
const tools: Ask["tools"] = [
  {
    type: "function",
    function: {
      name: "weather",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

/** The accumulating stream, which the older SDK keeps under `beta`. */
function accumulate(client: OpenAI, ask: Ask) {
  const { chat } = client.beta as unknown as { chat?: OpenAI["chat"] };
  const streamed = { ...ask, stream_options: { include_usage: true }, stream: true } as const;
  return (chat?.completions.stream ? chat : client.chat).completions.stream(streamed).finalChatCompletion();
}

t.test("streamed or whole, the SDKs read the same from every model", (t) =>
  withSdks(t, protocol, async (t, client) => {
    for (const model of ["echo", "tool", "reasoning", "image", "long"]) {
      const ask = { model, messages, tools };
      const whole = await client.chat.completions.create(ask);
      const streamed = await accumulate(client, ask);
      const [one, other] = [whole.choices[0], streamed.choices[0]];
      t.equal(other?.message.content, one?.message.content, model);
      t.same(other?.message.tool_calls, one?.message.tool_calls);
      t.equal(other?.finish_reason, one?.finish_reason);
      t.same(streamed.usage, whole.usage);
      t.equal(whole.usage?.total_tokens, (whole.usage?.prompt_tokens ?? 0) + (whole.usage?.completion_tokens ?? 0));
    }
  }),
);

t.test("image draws after a text", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { choices } = await client.chat.completions.create({ model: "image", messages });
    t.match(choices[0]?.message, {
      ...{ content: "Here is a picture.", images: [{ image_url: { url: /^data:image\/png;base64,iVBORw0KGgo/ } }] },
    });
  }),
);

t.test("echo repeats the user's last text", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { choices, model } = await client.chat.completions.create({ model: "echo", messages });
    t.equal(choices[0]?.message.content, "Grüße 🎈 to all of you");
    t.equal(model, "echo");
  }),
);

t.test("a tool loop runs: call, result, answer", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const first = await client.chat.completions.create({ model: "tool", messages, tools });
    const call = first.choices[0]?.message.tool_calls?.[0];
    if (call?.type !== "function") return void t.fail("no call");
    t.equal(first.choices[0]?.finish_reason, "tool_calls");
    t.equal(call.function.name, "weather");
    t.same(JSON.parse(call.function.arguments), { city: "demo" });
    const answered: Ask["messages"] = [
      ...messages,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "21 °C" },
    ];
    const second = await client.chat.completions.create({ model: "tool", messages: answered, tools });
    t.equal(second.choices[0]?.message.content, "The tool answered: 21 °C");
    t.equal(second.choices[0]?.finish_reason, "stop");
  }),
);

t.test("custom tools are called with text, and tool_choice is obeyed", async (t) => {
  const custom = { type: "custom", custom: { name: "exec" } };
  const callsOf = (more: object) => {
    const { frames } = demoOf(protocol, PATH, { model: "tool", messages, tools: [...(tools ?? []), custom], ...more });
    return JSON.parse(String(frames[0]?.bytes)).choices[0].message.tool_calls;
  };
  t.equal(callsOf({})[0].function.name, "weather");
  t.match(callsOf({ tool_choice: { type: "custom", custom: { name: "exec" } } }), [
    { type: "custom", custom: { name: "exec", input: "demo" } },
  ]);
  t.equal(callsOf({ tool_choice: "none" }), undefined);
});

t.test("reasoning comes before the text and counts as output", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { choices, usage } = await client.chat.completions.create({ model: "reasoning", messages });
    t.match(choices[0]?.message, { reasoning_content: /repeat/ });
    t.ok((usage?.completion_tokens_details?.reasoning_tokens ?? 0) > 0);
    t.ok((usage?.completion_tokens_details?.reasoning_tokens ?? 0) < (usage?.completion_tokens ?? 0));
  }),
);

t.test("a token limit ends the text with the reason length", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { choices, usage } = await client.chat.completions.create({ model: "long", messages, max_tokens: 5 });
    t.equal(choices[0]?.finish_reason, "length");
    t.equal(usage?.completion_tokens, 5);
  }),
);

t.test("an interrupted answer that is not a stream never looks complete", async (t) => {
  const { frames } = demoOf(protocol, PATH, { model: "cut", messages });
  t.equal(frames.at(-1)?.cut, true);
  t.throws(() => JSON.parse(String(frames[0]?.bytes)));
});

t.test("slow starts after 1.5 s and takes 3 s, long has 400 pieces", async (t) => {
  const slow = demoOf(protocol, PATH, { model: "slow", messages, stream: true }).frames.map(({ after }) => after ?? 0);
  t.same(slow, [0, 1500, 300, 300, 300, 300, 300, 0, 0]);
  t.equal(demoOf(protocol, PATH, { model: "long", messages, stream: true }).frames.length, 403);
});

t.test("a stream is, byte for byte, in the vendor's order", async (t) => {
  const { headers, frames } = demoOf(protocol, PATH, {
    model: "echo",
    messages: [{ role: "user", content: "Hi you" }],
    stream: true,
  });
  t.match(headers["content-type"], "text/event-stream");
  const head = '"id":"ID","object":"chat.completion.chunk","created":0,"model":"echo"';
  const deltas = ['{"role":"assistant","content":"","refusal":null}', '{"content":"Hi"}', '{"content":" you"}', "{}"];
  const chunks = deltas.map((delta, n) => {
    const finish = n === 3 ? '"stop"' : "null";
    return `data: {${head},"choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish}}]}\n\n`;
  });
  const written = frames.map((frame) => String(frame.bytes)).join("");
  t.equal(
    written.replaceAll(/chatcmpl-[0-9a-f]{24}/g, "ID").replaceAll(/"created":\d+/g, '"created":0'),
    `${chunks.join("")}data: [DONE]\n\n`,
  );
});
