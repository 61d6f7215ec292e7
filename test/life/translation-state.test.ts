import type { ServerResponse } from "node:http";
import t, { type Test } from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { CLIENTS, type Client } from "../support/four-clients.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { httpUpstream, type SeenRequest } from "../support/upstream.ts";

/** Answers in which the provider gives state that it wants back, in each of its places. */
const ANSWERS: Record<string, { answer: object; wanted: RegExp[] }> = {
  "anthropic-messages": {
    answer: {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "vendor",
      content: [
        { type: "thinking", thinking: "Let me see.", signature: "EqQBsig+nature/1==" },
        { type: "redacted_thinking", data: "RedactedData+/==" },
        { type: "thinking", thinking: "", signature: "EqQBsignature2" },
        { type: "tool_use", id: "toolu_1", name: "f", input: { city: "Rome" } },
      ],
      stop_reason: "tool_use",
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 2 },
    },
    wanted: [
      /"type":"thinking","thinking":"Let me see\.","signature":"EqQBsig\+nature\/1=="/,
      /"type":"redacted_thinking","data":"RedactedData\+\/=="/,
      /"type":"thinking","thinking":"","signature":"EqQBsignature2"/,
      /nature\/1==".*RedactedData.*EqQBsignature2.*"tool_use".*"tool_result"/s,
    ],
  },
  "openai-responses": {
    answer: {
      id: "resp_1",
      object: "response",
      created_at: 1,
      status: "completed",
      model: "vendor",
      output: [
        {
          id: "rs_1",
          type: "reasoning",
          summary: [{ type: "summary_text", text: "Looking." }],
          encrypted_content: "gAAAAABencrypted==",
        },
        {
          id: "fc_1",
          type: "function_call",
          call_id: "call_1",
          name: "f",
          arguments: '{"city":"Rome"}',
          status: "completed",
        },
      ],
      usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
    },
    wanted: [
      /"encrypted_content":"gAAAAABencrypted=="/,
      /"text":"Looking\."/,
      /gAAAAABencrypted.*"function_call".*"function_call_output"/s,
    ],
  },
  gemini: {
    answer: {
      candidates: [
        {
          index: 0,
          content: {
            role: "model",
            parts: [
              { text: "Hm.", thought: true },
              { functionCall: { name: "f", args: { city: "Rome" } }, thoughtSignature: "CiQBcallSignature+/==" },
              { functionCall: { name: "f", args: { city: "Oslo" } } },
            ],
          },
          finishReason: "STOP",
        },
      ],
      usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2, totalTokenCount: 3 },
      modelVersion: "vendor",
      responseId: "r1",
    },
    wanted: [
      /"args":\{"city":"Rome"\}\},"thoughtSignature":"CiQBcallSignature\+\/=="\}/,
      /"args":\{"city":"Oslo"\}\}\}/,
    ],
  },
};

async function twice(t: Test, name: string, provider: string, strip = (body: JsonObject) => body) {
  const client = CLIENTS[name] as Client;
  const upstream = await httpUpstream((_: SeenRequest, reply: ServerResponse) =>
    reply.setHeader("content-type", "application/json").end(JSON.stringify(ANSWERS[provider]?.answer)),
  );
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [${provider}] } }\nmodels: { m: { targets: [up:vendor] } }\n`,
  );
  const ask = async (body: JsonObject) => {
    const json = JSON.stringify(client.with(body, "m", false));
    const response = await fetch(running.url + client.path("m", false), {
      method: "POST",
      headers: asking(),
      body: json,
    });
    const text = await response.text();
    if (response.status !== 200) throw new Error(text);
    return { answer: JSON.parse(text) as JsonObject, notice: response.headers.get("gateway-notice") };
  };
  const body = client.ask("Where?", "f");
  const { answer } = await ask(body);
  const next = strip(client.next(body, answer, "There."));
  const { notice } = await ask(next);
  return { sent: upstream.seen[1]?.body.toString() ?? "", notice, next };
}

for (const [provider, { wanted }] of Object.entries(ANSWERS))
  for (const name of Object.keys(CLIENTS).filter((each) => each !== provider))
    t.test(`state of ${provider} returns to it through a client of ${name}, in its place`, async (t) => {
      const { sent, notice } = await twice(t, name, provider);
      for (const place of wanted) t.match(sent, place);
      t.notMatch(sent, /gw1state/);
      t.equal(notice, null);
    });

for (const provider of Object.keys(ANSWERS).filter((each) => each !== "gemini"))
  t.test(
    `state of ${provider} passes a Gemini client that decodes it to bytes and encodes them as base64url`,
    async (t) => {
      let signatures = 0;
      const { sent, notice } = await twice(t, "gemini", provider, (body) => {
        const json = JSON.stringify(body).replaceAll(/"thoughtSignature":"([^"]*)"/g, (_, text: string) => {
          signatures++;
          const bytes = Buffer.from(text, "base64");
          t.equal(bytes.toString("base64"), text, "accepted by strict base64 decoders");
          return `"thought_signature":"${bytes.toString("base64url")}"`;
        });
        return JSON.parse(json) as JsonObject;
      });
      t.ok(signatures > 0);
      for (const place of ANSWERS[provider]?.wanted ?? []) t.match(sent, place);
      t.equal(notice, null);
    },
  );

t.test("a Chat client that strips unknown members loses no state of calls", async (t) => {
  const { sent, next } = await twice(t, "openai-chat", "gemini", (body) => {
    const messages = (body["messages"] as JsonObject[]).map(
      ({ reasoning_details: _, reasoning_content: __, ...message }) => {
        const calls = message["tool_calls"] as JsonObject[] | undefined;
        return { ...message, ...(calls ? { tool_calls: calls.map(({ extra_content: ___, ...call }) => call) } : {}) };
      },
    );
    return { ...body, messages };
  });
  t.notMatch(JSON.stringify(next), /gw1state/);
  t.match(sent, /CiQBcallSignature/);
});

t.test("modified state is a 400 in the client's protocol", async (t) => {
  const change = (body: JsonObject) =>
    JSON.parse(
      JSON.stringify(body).replaceAll(/gw1state(.)/g, (_, first: string) => `gw1state${first === "A" ? "B" : "A"}`),
    ) as JsonObject;
  await t.rejects(twice(t, "anthropic-messages", "gemini", change), {
    message: /"invalid_request_error".*opaque reasoning state/,
  });
});

t.test(
  "a conversation continues at another instance with the same sealing key, and at none with another",
  async (t) => {
    const client = CLIENTS["anthropic-messages"] as Client;
    const at = async (key: string) => {
      const running = await startGateway(
        t,
        `providers: { far: { url: "demo:", speaks: [gemini] } }\nmodels: { m: { targets: [far:reasoning] } }\nenvelopes: { key: ${key} }\n`,
      );
      return (body: JsonObject) =>
        fetch(running.url + client.path("m", false), {
          method: "POST",
          headers: asking(),
          body: JSON.stringify(client.with(body, "m", false)),
        });
    };
    const [one, same, other] = [
      await at("a-key-of-all-instances"),
      await at("a-key-of-all-instances"),
      await at("a-key-of-its-own-only"),
    ];
    const body = { ...client.ask("Think.", "f"), ...client.thinking };
    const next = client.next(body, (await (await one(body)).json()) as JsonObject, "Again.");
    t.match(JSON.stringify(next), /"gw1state/);
    t.equal((await same(next)).status, 200);
    t.equal((await other(next)).status, 400);
  },
);
