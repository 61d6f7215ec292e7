import type OpenAI from "openai";
import t from "tap";
import protocol from "../../../../plugins/protocols/openai-responses/index.ts";
import { collect, demoOf, withSdks } from "../../../support/openai-sdks.ts";
import { eventsIn } from "../../../support/recorded.ts";

type Ask = OpenAI.Responses.ResponseCreateParamsNonStreaming;

const PATH = "/v1/responses";
const input: OpenAI.Responses.ResponseInput = [
  { role: "developer", content: "Be brief." },
  { role: "user", content: [{ type: "input_text", text: "Grüße 🎈 to all of you" }] },
];
const weather: OpenAI.Responses.FunctionTool = {
  type: "function",
  name: "weather",
  strict: false,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

/** The parsed body of a whole answer. */
const wholeOf = (path: string, body: { model: string } & Record<string, unknown>) =>
  JSON.parse(String(demoOf(protocol, path, body).frames[0]?.bytes));

t.test("streamed or whole, the SDKs read the same from every model", (t) =>
  withSdks(t, protocol, async (t, client) => {
    for (const model of ["echo", "tool", "reasoning", "image", "long"]) {
      const ask: Ask = { model, input, tools: [weather] };
      const whole = await client.responses.create(ask);
      const streamed = await client.responses.stream({ ...ask, stream: true }).finalResponse();
      // The accumulator adds `parsed` members; what both have must be equal.
      t.match(streamed.output, whole.output, model);
      t.equal(streamed.status, "completed");
      t.same(streamed.usage, whole.usage);
      t.equal(whole.usage?.total_tokens, (whole.usage?.input_tokens ?? 0) + (whole.usage?.output_tokens ?? 0));
    }
  }),
);

t.test("image draws after a text", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { output, output_text } = await client.responses.create({ model: "image", input });
    t.equal(output_text, "Here is a picture.");
    t.match(output[1], { type: "image_generation_call", status: "completed", result: /^iVBORw0KGgo/ });
  }),
);

t.test("echo repeats the user's last text", (t) =>
  withSdks(t, protocol, async (t, client) => {
    t.equal((await client.responses.create({ model: "echo", input })).output_text, "Grüße 🎈 to all of you");
    t.equal((await client.responses.create({ model: "echo", input: "plain" })).output_text, "plain");
  }),
);

t.test("a tool loop runs: call, result, answer", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const first = await client.responses.create({ model: "tool", input, tools: [weather] });
    const call = first.output[0];
    if (call?.type !== "function_call") return void t.fail("no call");
    t.equal(call.name, "weather");
    t.same(JSON.parse(call.arguments), { city: "demo" });
    const result = { type: "function_call_output", call_id: call.call_id, output: "21 °C" } as const;
    const second = await client.responses.create({ model: "tool", input: [...input, call, result], tools: [weather] });
    t.equal(second.output_text, "The tool answered: 21 °C");
  }),
);

t.test("custom tools, namespaces and tools among the input are called as their agents expect", async (t) => {
  const exec = { type: "custom", name: "exec" };
  const callOf = (more: object) => wholeOf(PATH, { model: "tool", input, ...more }).output[0];
  t.match(callOf({ tools: [exec] }), { type: "custom_tool_call", name: "exec", input: "demo", call_id: /^call_/ });
  const additional = {
    type: "additional_tools",
    role: "developer",
    tools: [{ type: "namespace", name: "functions", tools: [exec] }],
  };
  t.match(callOf({ input: [additional, ...input] }), {
    type: "custom_tool_call",
    name: "exec",
    namespace: "functions",
  });
  t.match(callOf({ tools: [{ type: "web_search" }, weather] }), { type: "function_call", name: "weather" });
  t.equal(callOf({ tools: [weather], tool_choice: "none" }).type, "message");
  t.match(callOf({ tools: [exec, weather], tool_choice: { type: "function", name: "weather" } }), { name: "weather" });
});

t.test("custom calls stream in a way the SDKs accept", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const exec: OpenAI.Responses.CustomTool = { type: "custom", name: "exec" };
    const { output } = await client.responses.stream({ model: "tool", input, tools: [exec] }).finalResponse();
    t.match(output, [{ type: "custom_tool_call", name: "exec", input: "demo" }]);
  }),
);

t.test("reasoning has a summary, encrypted content, and counts as output", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const { output, usage } = await client.responses.create({ model: "reasoning", input });
    t.match(output[0], {
      type: "reasoning",
      summary: [{ type: "summary_text", text: /repeat/ }],
      encrypted_content: /./,
    });
    t.equal(output[1]?.type, "message");
    t.ok((usage?.output_tokens_details.reasoning_tokens ?? 0) > 0);
  }),
);

t.test("a token limit makes the response incomplete, streamed or whole", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const ask: Ask = { model: "long", input, max_output_tokens: 5 };
    const expected = {
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      usage: { output_tokens: 5 },
    };
    t.match(await client.responses.create(ask), expected);
    // Raw events, since the older SDK's accumulator passes over `response.incomplete`.
    const { items } = await collect(await client.responses.create({ ...ask, stream: true }));
    t.match(items.at(-1), { type: "response.incomplete", response: expected });
  }),
);

t.test("a stream that fails or is interrupted yields what came before and then throws", (t) =>
  withSdks(t, protocol, async (t, client) => {
    for (const model of ["error-stream", "cut"]) {
      const { items, error } = await collect(await client.responses.create({ model, input, stream: true }));
      t.ok(error instanceof Error, `${model} throws`);
      if (model === "error-stream") t.equal(items.at(-1)?.type, "response.failed");
    }
  }),
);

t.test("input tokens are counted without an answer", async (t) => {
  const { input_tokens, object } = wholeOf("/v1/responses/input_tokens", {
    model: "echo",
    input,
    instructions: "Be kind.",
  });
  t.equal(object, "response.input_tokens");
  t.equal(input_tokens, Math.ceil("Be kind.Be brief.Grüße 🎈 to all of you".length / 4));
});

t.test("compacting keeps the user's messages and encrypts the rest in one item", async (t) => {
  const { object, output, usage } = wholeOf("/v1/responses/compact", { model: "echo", input });
  t.equal(object, "response.compaction");
  t.match(output, [
    { type: "message", role: "user" },
    { type: "compaction", encrypted_content: String },
  ]);
  t.ok(usage.input_tokens > 0);
});

t.test("an input that ends with a compaction trigger is answered by one compaction item, which the SDKs accept", (t) =>
  withSdks(t, protocol, async (t, client) => {
    const asked = [...input, { type: "compaction_trigger" }] as OpenAI.Responses.ResponseInput;
    const { output } = await client.responses.stream({ model: "echo", input: asked }).finalResponse();
    t.same(
      output.map(({ type }) => type),
      ["compaction"],
    );
  }),
);

const stream = (model: string) =>
  eventsIn(
    demoOf(protocol, PATH, { model, input, stream: true, tools: [weather] })
      .frames.map(({ bytes }) => String(bytes))
      .join(""),
  );

t.test("only the last event ends a stream, and only it contains usage", async (t) => {
  for (const model of ["echo", "reasoning", "tool"]) {
    const frames = stream(model);
    t.same(frames.map(protocol.ending).filter(Boolean), ["complete"]);
    t.equal(protocol.ending(frames.at(-1) as (typeof frames)[number]), "complete");
    t.same(
      frames.flatMap((frame, n) => (protocol.holdsUsage(frame) ? [n] : [])),
      [frames.length - 1],
    );
  }
  t.same(stream("error-stream").map(protocol.ending).filter(Boolean), ["error", "error"]);
});
