/** Agents' loops of tool calls in the vendors' own SDKs, before vendors that want back what they thought in every turn. */
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI, type Part } from "@google/genai";
import OpenAI from "openai";
import t, { type Test } from "tap";
import { asList, type JsonObject } from "../../src/wire/values.ts";
import { KEY, startGateway } from "../support/gateway.ts";
import { askedIn, SCRIPTS, TEXT } from "../support/scripted.ts";
import { THINKING } from "../support/thinking-vendors.ts";
import { httpUpstream } from "../support/upstream.ts";
import { PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** How often a vendor calls tools before it answers. */
const ROUNDS = 2;
const RESULTS: Record<ProtocolName, RegExp> = {
  "openai-chat": /"role":"tool"/g,
  "openai-responses": /"type":"function_call_output"/g,
  "anthropic-messages": /"type":"tool_result"/g,
  gemini: /"functionResponse"/g,
};

/** The same in another turn: ids and state of their own. Some clients take state for base64, which has no `=` inside. */
const inRound = (round: number, value: unknown): string =>
  JSON.stringify(value)
    .replaceAll("first+call==", "first/call")
    .replaceAll(/(toolu|call|fc|rs|resp|msg)_0?1(A?)/g, `$1_0${round}$2`)
    .replaceAll(/"call-([12])"/g, `"call-$1-${round}"`)
    .replaceAll(/EqQB|EmwK|CiQB|gAAA/g, (start) => start.slice(0, 3) + "ABCD"[round]);

/** A provider that calls tools in its first turns, each time with new state, and goes on only if it gets all of it back. */
async function provider(t: Test, vendor: ProtocolName) {
  const { whole, stream, state, expected } = THINKING[vendor];
  const lost: string[] = [];
  const asked: JsonObject[] = [];
  const upstream = await httpUpstream((request, reply) => {
    const text = request.body.toString();
    const body = JSON.parse(text) as JsonObject;
    asked.push(body);
    const calls = vendor === "gemini" ? 2 : 1;
    const round = (text.match(RESULTS[vendor]) ?? []).length / calls;
    const turns = Array.from({ length: round }, (_, each) => asList(JSON.parse(inRound(each, expected))));
    // A turn without thoughts, at the end of a loop, has no state.
    const found = asList(state(body)).filter((each) => JSON.stringify(each) !== "[null,[]]");
    const sorted = (value: unknown) => JSON.stringify(value, (_, each: unknown) => inOrder(each));
    const [is, should] = [sorted(found), sorted(turns.flat())];
    if (is !== should) lost.push(`${is} instead of ${should}`);
    const streams = askedIn(request).stream;
    reply.setHeader("content-type", streams ? "text/event-stream" : "application/json");
    const says = SCRIPTS[vendor];
    if (round >= ROUNDS) return reply.end(streams ? says.frames("text").join("") : JSON.stringify(says.whole("text")));
    if (!streams) return reply.end(inRound(round, whole));
    const events = stream.map(([name, value]) => `${name ? `event: ${name}\n` : ""}data: ${inRound(round, value)}\n\n`);
    return reply.end(events.join("") + (vendor === "openai-chat" ? "data: [DONE]\n\n" : ""));
  });
  t.teardown(() => upstream.close());
  return { url: `${upstream.origin.origin}/v1`, asked, lost };
}

/** Members in one order; members of no value are none. */
const inOrder = (value: unknown): unknown =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
    : value;

const SCHEMA = { type: "object" as const, properties: { city: { type: "string" }, days: { type: "number" } } };
const PROMPT = "How is the weather?";

/** Asks until there is an answer, and gives its text. */
type Loop = (url: string, model: string, stream: boolean) => Promise<string>;

const LOOPS: Partial<Record<ProtocolName, Loop>> = {
  // Begins with a message thread, in which only what is new is sent.
  "anthropic-messages": async (url, model, stream) => {
    const client = new Anthropic({ baseURL: url, apiKey: KEY, maxRetries: 0 });
    const tool = {
      ...{ type: "custom" as const, name: "get_weather", description: "Weather", input_schema: SCHEMA },
      run: () => "snow",
      parse: (input: unknown) => input,
    };
    const messages = [{ role: "user" as const, content: PROMPT }];
    const ask = { model, max_tokens: 4096, messages, tools: [tool] };
    let last: Anthropic.Beta.BetaMessage | undefined;
    if (stream)
      for await (const each of client.beta.messages.toolRunner({ ...ask, stream })) last = await each.finalMessage();
    else for await (const each of client.beta.messages.toolRunner(ask)) last = each;
    return (last?.content ?? []).map((block) => (block.type === "text" ? block.text : "")).join("");
  },
  gemini: async (url, model, stream) => {
    const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: url } });
    const tools = [{ functionDeclarations: [{ name: "get_weather", parametersJsonSchema: SCHEMA }] }];
    const chat = client.chats.create({ model, config: { tools, thinkingConfig: { includeThoughts: true } } });
    let message: Part[] = [{ text: PROMPT }];
    for (;;) {
      const parts: Part[] = [];
      const answers = stream ? await chat.sendMessageStream({ message }) : [await chat.sendMessage({ message })];
      for await (const { candidates } of answers) parts.push(...(candidates?.[0]?.content?.parts ?? []));
      message = parts.flatMap(({ functionCall: call }) =>
        call ? [{ functionResponse: { id: call.id ?? "", name: "get_weather", response: { output: "snow" } } }] : [],
      );
      if (message.length === 0) return parts.map((part) => (part.thought ? "" : (part.text ?? ""))).join("");
    }
  },
  "openai-chat": async (url, model) => {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
    const tools = [{ type: "function" as const, function: { name: "get_weather", parameters: SCHEMA } }];
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: PROMPT }];
    for (;;) {
      const { choices } = await client.chat.completions.create({ model, messages, tools });
      const message = choices[0]?.message as OpenAI.ChatCompletionMessage;
      if (!message.tool_calls) return message.content ?? "";
      const results = message.tool_calls.map(({ id }) => ({
        role: "tool" as const,
        tool_call_id: id,
        content: "snow",
      }));
      messages.push(message, ...results);
    }
  },
};

for (const [client, loop] of Object.entries(LOOPS))
  for (const vendor of PROTOCOLS.filter((each) => each !== client || each === "anthropic-messages"))
    for (const stream of client === "openai-chat" ? [false] : [false, true])
      t.test(`a ${client} client's loop with ${vendor} ends, ${stream ? "streamed" : "whole"}`, async (t) => {
        const { url, asked, lost } = await provider(t, vendor);
        const running = await startGateway(
          t,
          `providers: { them: { url: "${url}", speaks: [${vendor}] } }\nmodels: { any: { targets: [them:any] } }\n`,
        );
        t.equal(await loop(running.url, "any", stream), TEXT);
        t.equal(asked.length, ROUNDS + 1, "requests that reached the provider");
        t.same(lost, [], "state that was not returned");
        t.notOk(
          asked.some((body) => body["thread"]),
          "a thread without its history",
        );
        const refused = running.log.lines.filter(({ fields }) => fields["status"] === 400).length;
        t.equal(
          refused,
          client === "anthropic-messages" ? 1 : 0,
          "refusals, after which the whole conversation is sent",
        );
      });
