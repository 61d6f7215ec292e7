/** Sharp cases of reasoning: what only its vendor can read goes out with the answer and comes back with the next request. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { CLIENTS } from "../support/four-clients.ts";
import { gathered } from "../support/gathered.ts";
import { faultsOf } from "../support/vendor-rules.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";
import {
  at,
  candidate,
  listAt,
  messageStream,
  refusalOf,
  responseOf,
  responseStream,
  type Sent,
  send,
  streamOf,
  type Way,
} from "./sharp-cases.ts";

const SIGNATURE = "EqQBCgIYAhIkYjVmZmE5ZDAtNzk3Zi00ZTI5+/w==";
const REDACTED = "EmwKAhgCEiQ3ZGY1MmU4Zi00NzU3+/==";
const ENCRYPTED = "gAAAAABo_encrypted+/==";
const THOUGHT = "CiQB0e2Kb/first+call==";

/** An answer of a vendor's: its first, whole and streamed. */
interface Said {
  vendor: ProtocolName;
  whole: JsonObject;
  stream: string;
}

/** Claude says these blocks. */
function claude(content: readonly JsonObject[]): Said {
  const stop_reason = content.some(({ type }) => type === "tool_use") ? "tool_use" : "end_turn";
  const usage = { input_tokens: 10, output_tokens: 5 };
  const blocks = content.map((block): [JsonObject, ...JsonObject[]] => {
    switch (block["type"]) {
      case "thinking":
        return [
          { type: "thinking", thinking: "", signature: "" },
          ...(block["thinking"] ? [{ type: "thinking_delta", thinking: block["thinking"] }] : []),
          { type: "signature_delta", signature: block["signature"] },
        ];
      case "text":
        return [
          { type: "text", text: "" },
          { type: "text_delta", text: block["text"] },
        ];
      default:
        return [block];
    }
  });
  return {
    vendor: "anthropic-messages",
    whole: { id: "msg_1", type: "message", role: "assistant", model: "m", content, stop_reason, usage },
    stream: streamOf("anthropic-messages", messageStream(blocks, stop_reason)),
  };
}

/** Gemini says these parts, each in a chunk. */
const gemini = (parts: readonly JsonObject[]): Said => ({
  vendor: "gemini",
  whole: candidate(parts, "STOP"),
  stream: streamOf(
    "gemini",
    parts.map((part, n) => candidate([part], n === parts.length - 1 ? "STOP" : undefined)),
  ),
});

/** OpenAI says these items. */
const openai = (items: readonly JsonObject[]): Said => ({
  vendor: "openai-responses",
  whole: responseOf(items),
  stream: streamOf("openai-responses", responseStream(items)),
});

const WANTED: Record<ProtocolName, JsonObject> = {
  "openai-chat": { reasoning_effort: "high", max_completion_tokens: 9000 },
  "openai-responses": { reasoning: { effort: "high", summary: "auto" }, max_output_tokens: 9000 },
  "anthropic-messages": { thinking: { type: "enabled", budget_tokens: 5000 }, max_tokens: 9000 },
  gemini: { generationConfig: { thinkingConfig: { includeThoughts: true, thinkingLevel: "HIGH" } } },
};

/** What the client makes of the whole answer, and of the stream: a message of its protocol. */
async function heard(client: ProtocolName, sent: Sent, { whole, stream }: Said): Promise<JsonObject[]> {
  const told = (await accumulated(client, true, sent.streamed(stream).text)) as JsonObject;
  if (client !== "gemini") return [sent.whole(whole), told];
  const parts = Object.values(told).flatMap((each) => listAt(each, "candidates.0.content.parts"));
  return [sent.whole(whole), candidate(parts)];
}

/** The second request of a client, after the whole answer and after the stream. */
async function seconds(client: ProtocolName, uses: Said, way?: Way, to: ProtocolName = uses.vendor): Promise<Sent[]> {
  const ask = { ...CLIENTS[client]?.ask("How is the weather?", "get_weather"), ...WANTED[client] };
  const first = send(client, ask, uses.vendor);
  const answers = await heard(client, first, uses);
  return answers.map((answer) => send(client, CLIENTS[client]?.next(ask, answer, "snow") ?? {}, to, way));
}

const others = (vendor: ProtocolName) => PROTOCOLS.filter((name) => name !== vendor);
const call = { type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Oslo" } };
const thinking = { type: "thinking", thinking: "Where is it?", signature: SIGNATURE };
const text = { type: "text", text: "Let me look." };

t.test("19: a signature on Gemini's last, empty text creates no empty text and is returned on that part", async (t) => {
  const parts = [{ text: "Snow." }, { text: "", thoughtSignature: THOUGHT }];
  for (const client of others("gemini"))
    for (const { body, text: json } of await seconds(client, gemini(parts))) {
      t.same(at(body, "contents.1.parts"), parts, client);
      t.same(faultsOf("gemini", json), []);
    }
  const { content } = send(
    "anthropic-messages",
    { max_tokens: 9, messages: [{ role: "user", content: "Hi" }], thinking: { type: "adaptive" } },
    "gemini",
  ).whole(gemini(parts).whole);
  t.same(
    (content as JsonObject[]).map((block) => [block["type"], block["text"]]),
    [["text", "Snow."]],
    "the last block is the text, which clients take for the answer; the signature is stored for that text",
  );
});

t.test("a signature that is found by the last text is returned in its own conversation only", async (t) => {
  const asking = (...messages: JsonObject[]): JsonObject => ({
    max_tokens: 9,
    system: "Be brief.",
    messages,
    thinking: { type: "adaptive" },
  });
  const [oslo, rome] = ["Is it cold in Oslo?", "Is it cold in Rome?"].map((content) => ({ role: "user", content }));
  const marked = [{ type: "text", text: "Is it cold in Oslo?", cache_control: { type: "ephemeral" } }];
  const signed = (signature: string) => gemini([{ text: "Yes." }, { text: "", thoughtSignature: signature }]).whole;
  const [first, second] = ["Zmlyc3Q=", "c2Vjb25k"] as const;
  send("anthropic-messages", asking(oslo as JsonObject), "gemini").whole(signed(first));
  send("anthropic-messages", asking(rome as JsonObject), "gemini").whole(signed(second));
  const back = (question: unknown, caller = "") => {
    const messages = [{ role: "user", content: question }, { role: "assistant", content: "Yes." }, rome as JsonObject];
    return at(send("anthropic-messages", asking(...messages), "gemini", { caller }).body, "contents.1.parts");
  };
  t.same(back("Is it cold in Oslo?"), [{ text: "Yes." }, { text: "", thoughtSignature: first }]);
  t.same(back(marked), [{ text: "Yes." }, { text: "", thoughtSignature: first }], "a mark changes nothing");
  t.same(back("Is it cold in Rome?"), [{ text: "Yes." }, { text: "", thoughtSignature: second }]);
  t.same(back("Is it cold in Bern?"), [{ text: "Yes." }], "the same text in another conversation");
  t.same(back("Is it cold in Oslo?", "another"), [{ text: "Yes." }], "another caller's");
  const asked = asking(oslo as JsonObject);
  const { content } = send("anthropic-messages", asked, "gemini").whole(
    gemini([{ text: "Yes.", thoughtSignature: second }]).whole,
  );
  const sent = send(
    "anthropic-messages",
    asking(oslo as JsonObject, { role: "assistant", content }, rome as JsonObject),
    "gemini",
  );
  t.same(at(sent.body, "contents.1.parts"), [{ text: "Yes.", thoughtSignature: second }], "a text with its own");
});

/** What a client keeps of a part that keeps signatures of calls only, and no thoughts. */
function keptOfCalls({ thoughtSignature, ...part }: JsonObject): JsonObject[] {
  if (part["functionCall"]) return [{ ...part, thoughtSignature }];
  return part["thought"] || part["text"] === "" ? [] : [part];
}

t.test(
  "Claude's reasoning reaches Gemini clients as Gemini's does, and is returned complete, whatever the client keeps",
  async (t) => {
    const question = { role: "user", parts: [{ text: "How is the weather?" }] };
    const answers = [
      [thinking, text],
      [thinking, text, call],
      [thinking, call],
      [thinking, { type: "redacted_thinking", data: REDACTED }, text],
    ];
    for (const blocks of answers)
      for (const includeThoughts of [true, false]) {
        const ask = {
          contents: [question],
          generationConfig: { thinkingConfig: { includeThoughts, thinkingLevel: "HIGH" } },
        };
        const uses = claude(blocks.map((block) => ("id" in block ? { ...block, input: {} } : block)));
        const { values } = send("gemini", ask, uses.vendor).streamed(uses.stream);
        const streamed = values.flatMap((value) => listAt(value, "candidates.0.content.parts"));
        const thoughts = streamed.filter(({ thought, text }) => thought && text !== "");
        t.equal(thoughts.map((part) => part["text"]).join(""), includeThoughts ? "Where is it?" : "");
        for (const part of thoughts)
          t.same(Object.keys(part).sort(), ["text", "thought"], "no thought has a signature");
        const whole = listAt(send("gemini", ask, uses.vendor).whole(uses.whole), "candidates.0.content.parts");
        const histories: Record<string, JsonObject[]> = {
          "all parts in one content": [{ role: "model", parts: streamed }],
          "each chunk as a content": values.map((value) => at(value, "candidates.0.content") as JsonObject),
          "no thoughts": [{ role: "model", parts: streamed.filter(({ thought, text }) => !thought || text === "") }],
          "the whole answer": [{ role: "model", parts: whole }],
          // As LangChain.js and LangChain4j do.
          ...(blocks.some((block) => block === call) && {
            "signatures of calls only": [{ role: "model", parts: streamed.flatMap(keptOfCalls) }],
          }),
        };
        for (const [name, contents] of Object.entries(histories)) {
          const results = contents.flatMap((content) =>
            listAt(content, "parts").flatMap((part) =>
              part["functionCall"]
                ? [
                    {
                      functionResponse: {
                        name: "get_weather",
                        id: at(part, "functionCall.id"),
                        response: { output: "ok" },
                      },
                    },
                  ]
                : [],
            ),
          );
          const next = { role: "user", parts: results.length > 0 ? results : [{ text: "Thanks." }] };
          const sent = send("gemini", { ...ask, contents: [question, ...contents, next] }, uses.vendor, {
            strict: true,
          });
          const back = listAt(sent.body, "messages.1.content");
          const said = back.map((block) => (block["type"] === "tool_use" ? { ...call, input: {} } : block));
          const wanted = blocks.map((block) => ("id" in block ? { ...call, input: {} } : block));
          t.same(said, wanted, `${name}, thoughts ${includeThoughts ? "shown" : "hidden"}, ${blocks.length} blocks`);
          t.same(sent.dropped, []);
        }
      }
  },
);

t.test("Gemini's own tool runs are returned to it with their signatures", async (t) => {
  const parts = [
    { executableCode: { language: "PYTHON", code: "print(1.0)" }, thoughtSignature: THOUGHT },
    { codeExecutionResult: { outcome: "OUTCOME_OK", output: "1.0" } },
    { toolCall: { toolType: "GOOGLE_SEARCH_WEB", args: { queries: ["snow"] }, id: "t1" }, thoughtSignature: THOUGHT },
    { toolResponse: { toolType: "GOOGLE_SEARCH_WEB", response: {}, id: "t1" }, thoughtSignature: THOUGHT },
    { text: "It is one.", thoughtSignature: THOUGHT },
  ];
  for (const client of others("gemini"))
    for (const { body } of await seconds(client, gemini(parts))) t.same(at(body, "contents.1.parts"), parts, client);
});

t.test(
  "images that Gemini signed are returned to it with their signatures, also where the client keeps images only",
  async (t) => {
    const drawn = (data: string, thoughtSignature: string) => ({
      inlineData: { mimeType: "image/png", data },
      thoughtSignature,
    });
    const one = [{ text: "Here:" }, drawn("iVBORw0K", THOUGHT)];
    for (const client of ["openai-chat", "openai-responses"] as const)
      for (const { body, text: json, notices } of await seconds(client, gemini(one), { caller: client })) {
        t.same(at(body, "contents.1.parts"), one, client);
        t.same(faultsOf("gemini", json), []);
        t.same(notices, []);
      }
    const parts = [...one, drawn("AAAA", "c2Vjb25k")];
    const ask = { messages: [{ role: "user", content: "Draw" }] };
    const answer = send("openai-chat", ask, "gemini", { caller: "strips" }).whole(gemini(parts).whole);
    const { content, images } = at(answer, "choices.0.message") as JsonObject;
    const next = { role: "user", content: "Bluer" };
    const messages = [...ask.messages, { role: "assistant", content, images }, next];
    t.same(at(send("openai-chat", { messages }, "gemini", { caller: "strips" }).body, "contents.1.parts"), parts);
    const other = send("openai-chat", { messages }, "gemini", { caller: "another" });
    t.match(other.notices, [/^messages\.1\.images\.0: .* bypass$/]);
    const asksThinking = { max_tokens: 9, thinking: { type: "adaptive" }, ...ask };
    const message = send("anthropic-messages", asksThinking, "gemini").whole(gemini(parts).whole);
    t.same(
      listAt(message, "content").map(({ type }) => type),
      ["text"],
      "no state of what is hidden from the client",
    );
  },
);

t.test("20: a signature on the first of parallel calls is returned on the first only, in order", async (t) => {
  const calls = ["Oslo", "Rome", "Bern"].map(
    (city, n): JsonObject => ({
      functionCall: { id: `g${n}`, name: "get_weather", args: { city } },
      ...(n === 0 ? { thoughtSignature: THOUGHT } : {}),
    }),
  );
  for (const client of others("gemini"))
    for (const { body } of await seconds(client, gemini(calls))) t.same(at(body, "contents.1.parts"), calls, client);
});

t.test(
  "Gemini's thoughts before a call are one Responses item with the call's signature, and both are returned",
  async (t) => {
    const thoughts = { text: "Where is it?", thought: true };
    const signed = { functionCall: { id: "g1", name: "get_weather", args: {} }, thoughtSignature: THOUGHT };
    const uses = gemini([thoughts, signed]);
    const ask = { ...CLIENTS["openai-responses"]?.ask("Weather?", "get_weather"), ...WANTED["openai-responses"] };
    for (const answer of await heard("openai-responses", send("openai-responses", ask, "gemini"), uses))
      t.same(
        listAt(answer, "output").map(({ type }) => type),
        ["reasoning", "function_call"],
      );
    for (const { body } of await seconds("openai-responses", uses))
      t.same(at(body, "contents.1.parts"), [thoughts, signed]);
    const said = { text: "Let me look.", thoughtSignature: THOUGHT };
    for (const { body } of await seconds("openai-responses", gemini([thoughts, said, signed])))
      t.same(at(body, "contents.1.parts"), [thoughts, said, signed], "a text's signature is with them too");
    for (const { body, notices } of await seconds("openai-responses", uses, { account: "others" })) {
      t.notMatch(JSON.stringify(body), "Where is it?", "nor are the thoughts another account's");
      t.match(notices.join(), "another provider");
    }
  },
);

t.test(
  "28: Claude's signed thinking is a Responses client's encrypted_content, and is returned byte for byte",
  async (t) => {
    const uses = claude([thinking, text, call]);
    const client = "openai-responses";
    const ask = { ...CLIENTS[client]?.ask("Hi", "get_weather"), ...WANTED[client] };
    for (const answer of await heard(client, send(client, ask, uses.vendor), uses)) {
      const [item] = listAt(answer, "output");
      t.match(item, {
        type: "reasoning",
        summary: [{ text: "Where is it?" }],
        encrypted_content: /^gw1state[\w+/]+={0,2}$/,
      });
      t.notMatch(item?.["encrypted_content"], SIGNATURE);
    }
    for (const { body, text: json } of await seconds(client, uses)) {
      t.same(at(body, "messages.1.content.0"), thinking);
      t.same(faultsOf("anthropic-messages", json), []);
    }
  },
);

t.test("29: redacted_thinking passes through every client and back, unchanged and in its place", async (t) => {
  const redacted = { type: "redacted_thinking", data: REDACTED };
  for (const content of [
    [redacted, text, call],
    [thinking, redacted, call],
    [redacted, thinking, text],
  ])
    for (const client of others("anthropic-messages"))
      for (const { body } of await seconds(client, claude(content)))
        t.same(at(body, "messages.1.content"), content, `${client}: ${content.map(({ type }) => type)}`);
});

t.test("thinking between texts and calls keeps its place, without which Claude refuses it", async (t) => {
  const more = { type: "thinking", thinking: "And then?", signature: "RXFMYXRlcg==" };
  const again = { ...call, id: "toolu_2", input: { city: "Bergen" } };
  for (const content of [
    [thinking, call, more, again],
    [{ type: "text", text: "Hm 😀." }, thinking, text, call],
    [thinking, { type: "text", text: "One." }, call, { type: "redacted_thinking", data: REDACTED }, more, again],
    [{ type: "text", text: "Hm." }, { type: "redacted_thinking", data: REDACTED }, text, call],
    [{ ...thinking, thinking: "" }, text, { ...more, thinking: "" }, { type: "text", text: "So 😀." }, call],
    [{ type: "text", text: "Hm." }, { ...thinking, thinking: "" }, text],
    [{ type: "text", text: "Hm." }, { ...thinking, thinking: "" }, text, more, { type: "text", text: "So 😀." }],
  ])
    for (const client of others("anthropic-messages"))
      for (const { body } of await seconds(client, claude(content), { facts: { thinking: "adaptive" } })) {
        t.same(at(body, "messages.1.content"), content, `${client}: ${content.map(({ type }) => type)}`);
        t.match(body["thinking"], { type: "adaptive" });
      }
  // OpenAI's reasoning is followed by its own item.
  const reasoning = (id: string) => ({ type: "reasoning", id, summary: [], encrypted_content: ENCRYPTED + id });
  const said = { type: "message", role: "assistant", id: "msg_1", content: [{ type: "output_text", text: "I look." }] };
  const asks = { type: "function_call", id: "fc_1", call_id: "c1", name: "get_weather", arguments: "{}" };
  for (const { body } of await seconds("openai-chat", openai([reasoning("rs_1"), said, reasoning("rs_2"), asks])))
    t.same(
      listAt(body, "input").map(({ type }) => type),
      ["message", "reasoning", "message", "reasoning", "function_call", "function_call_output"],
    );
});

t.test("30: thinking without text keeps its signature", async (t) => {
  const silent = { type: "thinking", thinking: "", signature: SIGNATURE };
  for (const client of others("anthropic-messages"))
    for (const { body } of await seconds(client, claude([silent, text, call])))
      t.same(at(body, "messages.1.content.0"), silent, client);
});

gathered(
  t,
  "31: what one vendor signed is left out for another, with a notice, and the request is valid",
  async (t) => {
    const answers = [
      claude([thinking, { type: "redacted_thinking", data: REDACTED }, text, call]),
      gemini([
        { text: "Where is it?", thought: true },
        { functionCall: { id: "g1", name: "get_weather", args: {} }, thoughtSignature: THOUGHT },
      ]),
      openai([
        { type: "reasoning", id: "rs_1", summary: [], encrypted_content: ENCRYPTED },
        { type: "function_call", id: "fc_1", call_id: "c1", name: "get_weather", arguments: "{}" },
      ]),
    ];
    for (const uses of answers)
      for (const client of PROTOCOLS)
        for (const to of PROTOCOLS) {
          if (client === uses.vendor || client === to) continue;
          const way = { account: "elsewhere", facts: { thinking: "budget" } } as const;
          for (const { text: json, notices } of await seconds(client, uses, way, to)) {
            const path = `${uses.vendor} by ${client} to ${to}`;
            t.notMatch(json, /gw1state|Where is it/, path);
            for (const state of [SIGNATURE, REDACTED, ENCRYPTED, THOUGHT]) t.notOk(json.includes(state), path);
            t.match(notices.join("\n"), /Reasoning that another provider made was left out/, path);
            t.same(faultsOf(to, json), [], path);
          }
        }
  },
);

t.test(
  "32: a reasoning item is returned without its id, with its content, directly before the item it belongs to",
  async (t) => {
    const uses = openai([
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: ENCRYPTED },
      { type: "function_call", id: "fc_1", call_id: "c1", name: "get_weather", arguments: '{"city":"Oslo"}' },
    ]);
    for (const client of others("openai-responses"))
      for (const { body } of await seconds(client, uses)) {
        t.same(
          listAt(body, "input").slice(1, 3),
          [
            { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }], encrypted_content: ENCRYPTED },
            { type: "function_call", call_id: "c1", name: "get_weather", arguments: '{"city":"Oslo"}' },
          ],
          client,
        );
        t.equal(body["store"], false);
        t.same(body["include"], ["reasoning.encrypted_content"]);
      }
  },
);

t.test("33: unsigned reasoning is not sent to Claude, and that is declared", async (t) => {
  const ask = {
    store: false,
    input: [
      { role: "user", content: "Hi" },
      { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "Hm." }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello." }] },
      { role: "user", content: "Go on." },
    ],
  };
  const { body, dropped, text: json } = send("openai-responses", ask, "anthropic-messages");
  t.same(at(body, "messages.1.content"), [{ type: "text", text: "Hello." }]);
  t.same(dropped, ["input.1"]);
  t.notMatch(json, "Hm.");
  t.match(refusalOf("openai-responses", ask, "anthropic-messages", { strict: true }), {
    status: 400,
    param: "input.1",
  });
  const chat = {
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello.", reasoning_content: "Hm." },
      { role: "user", content: "Go on." },
    ],
  };
  t.same(send("openai-chat", chat, "anthropic-messages").dropped, ["messages.1.reasoning_content"]);
});

t.test("34: a tool loop that lost Claude's thinking by tokens continues without, and declares it", async (t) => {
  const ask = {
    messages: [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: "Let me look.",
        tool_calls: [{ id: "c1", type: "function", function: { name: "get_weather", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c1", content: "snow" },
    ],
    tools: [{ type: "function", function: { name: "get_weather", parameters: { type: "object" } } }],
    reasoning_effort: "high",
    max_completion_tokens: 32_000,
  };
  const facts = { thinking: "budget" } as const;
  const { body, notices, text: json } = send("openai-chat", ask, "anthropic-messages", { facts, caller: "lost" });
  t.notOk("thinking" in body);
  t.match(notices, [/^reasoning_effort: no thinking: the thoughts before the last tool calls are not in the request/]);
  t.same(faultsOf("anthropic-messages", json), []);
  t.match(refusalOf("openai-chat", ask, "anthropic-messages", { facts, strict: true }), {
    status: 400,
    param: "reasoning_effort",
  });
  const adaptive = send("openai-chat", ask, "anthropic-messages", { facts: { thinking: "adaptive" }, caller: "lost" });
  t.match(adaptive.body["thinking"], { type: "adaptive" }, "a model that decides may call tools without thoughts");
  t.same(adaptive.notices, []);
  // With the thoughts there is thinking.
  const uses = claude([thinking, call]);
  for (const client of others("anthropic-messages"))
    for (const { body, notices } of await seconds(client, uses, { facts: { thinking: "adaptive" } })) {
      t.match(body["thinking"], { type: "adaptive" }, client);
      t.notMatch(notices.join(), "no thinking");
    }
});

t.test("reasoning before calls returns to its provider, also where a Chat client keeps the calls alone", async (t) => {
  const again = { ...call, id: "toolu_kept_2" };
  const first = { ...call, id: "toolu_kept_1" };
  const blocks = [thinking, { type: "redacted_thinking", data: REDACTED }, text, first, again];
  const ask = { ...CLIENTS["openai-chat"]?.ask("Weather?", "get_weather"), ...WANTED["openai-chat"] };
  const uses = claude(blocks);
  const asking = () => send("openai-chat", ask, "anthropic-messages", { caller: "key-1" });
  for (const answer of [asking().whole(uses.whole), (await heard("openai-chat", asking(), uses))[1]]) {
    const { content, tool_calls } = at(answer, "choices.0.message") as JsonObject;
    const calls = tool_calls as JsonObject[];
    const results = calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "snow" }));
    const sendBack = (more: object, way: Way) => {
      const messages = [...listAt(ask, "messages"), { role: "assistant", content, tool_calls, ...more }, ...results];
      return send("openai-chat", { ...ask, messages }, "anthropic-messages", way);
    };
    for (const more of [{}, { reasoning_details: [] }, { reasoning_content: "Where is it?" }]) {
      const { body, dropped } = sendBack(more, { caller: "key-1", strict: true, facts: { thinking: "adaptive" } });
      t.same(at(body, "messages.1.content"), blocks);
      t.match([body["thinking"], dropped], [{ type: "adaptive" }, { length: 0 }]);
    }
    const theirs = sendBack({}, { caller: "key-2" });
    t.same(at(theirs.body, "messages.1.content"), [text, first, again], "no other provider gets them");
    const elsewhere = sendBack({}, { caller: "key-1", account: "others" });
    t.same(at(elsewhere.body, "messages.1.content"), [text, first, again], "nor another provider");
  }
});

t.test("a Chat client that strips unknown members still returns Gemini's signature", async (t) => {
  const parts = [{ functionCall: { id: "g1", name: "get_weather", args: {} }, thoughtSignature: THOUGHT }];
  const ask = CLIENTS["openai-chat"]?.ask("Weather?", "get_weather") ?? {};
  const answer = send("openai-chat", ask, "gemini", { caller: "key-1" }).whole(gemini(parts).whole);
  const [{ id, type, function: asked } = {}] = listAt(answer, "choices.0.message.tool_calls");
  const stripped = {
    ...ask,
    messages: [
      ...listAt(ask, "messages"),
      { role: "assistant", content: null, tool_calls: [{ id, type, function: asked }] },
      { role: "tool", tool_call_id: id, content: "snow" },
    ],
  };
  const signature = (caller: string) =>
    at(send("openai-chat", stripped, "gemini", { caller }).body, "contents.1.parts.0.thoughtSignature");
  t.equal(signature("key-1"), THOUGHT);
  t.equal(signature("key-2"), "skip_thought_signature_validator", "no other key gets it");
});
