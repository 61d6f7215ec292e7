/** What real clients demand of a gateway, continued: answers and errors. */

import t from "tap";
import { type JsonObject } from "../../src/wire/values.ts";
import { at, candidate, PLAIN } from "../golden/sharp-cases.ts";
import { answering, events, type Got } from "../golden/sharp-http.ts";
import { gateway, PAIRS, pathFor, speaking } from "../support/checklist.ts";
import { digest } from "../support/digest.ts";
import { gathered } from "../support/gathered.ts";
import { type AnswerKind, REFUSAL, TEXT, TOKENS } from "../support/scripted.ts";
import { accumulated, PROTOCOLS, type ProtocolName } from "../support/vendor-sdks.ts";

/** The frames of a stream, comments left out. */
const framesOf = (text: string) =>
  text.split(/\r?\n\r?\n/).flatMap((frame) => {
    const data = /^data: ?(.*)$/m.exec(frame)?.[1];
    return data === undefined ? [] : [{ name: /^event: ?(.*)$/m.exec(frame)?.[1], data }];
  });
/** What the official SDK makes of an answer. */
const understood = async (client: ProtocolName, stream: boolean, { text }: Got) =>
  digest(client, await accumulated(client, stream, text));

gathered(t, "the right event grammar per protocol; [DONE] only in chat/completions", async (t) => {
  const gate = await gateway(t);
  const named: readonly ProtocolName[] = ["anthropic-messages", "openai-responses"];
  const ends: Record<ProtocolName, [first: RegExp, last: RegExp]> = {
    "openai-chat": [/"role":"assistant"/, /^\[DONE\]$/],
    "openai-responses": [/"type":"response.created"/, /"type":"response.(?:completed|incomplete)"/],
    "anthropic-messages": [/"type":"message_start"/, /"type":"message_stop"/],
    gemini: [/"candidates"/, /"finishReason":"(?:STOP|SAFETY)"/],
  };
  for (const line of ["text", "call", "bare-call", "refusal"] as const) {
    gate.answer(speaking(line));
    for (const [client, vendor] of PAIRS) {
      const got = await gate.ask(client, vendor);
      const way = `${line}, ${client} ← ${vendor}`;
      t.match(got.headers.get("content-type"), /^text\/event-stream/, way);
      t.equal(got.cut, false, way);
      const frames = framesOf(got.text);
      const json = frames.filter(({ data }) => data !== "[DONE]");
      const types = json.map(({ data }) => (JSON.parse(data) as JsonObject)["type"]);
      t.same(
        json.map(({ name }) => name),
        named.includes(client) ? types : types.map(() => undefined),
        `${way}: names`,
      );
      t.match(frames[0]?.data, ends[client][0], way);
      t.match(frames.at(-1)?.data, ends[client][1], way);
      t.equal(frames.length - json.length, client === "openai-chat" ? 1 : 0, `${way}: [DONE]`);
      const { text, calls } = await understood(client, true, got);
      t.equal(text, { text: TEXT, refusal: REFUSAL, call: "", "bare-call": "" }[line], way);
      t.equal(calls.length, line.endsWith("call") ? 1 : 0, way);
    }
  }
});

t.test("usage in a stream only when asked (chat), choices []; messages and Gemini always", async (t) => {
  const gate = await gateway(t);
  const { in: input, cached, out } = TOKENS;
  const silent = { messages: [{ role: "user", content: "Hi" }] };
  for (const vendor of PROTOCOLS) {
    const asked = events((await gate.ask("openai-chat", vendor)).text).filter((chunk) => chunk["usage"]);
    t.match(asked, [{ choices: { length: 0 }, usage: { prompt_tokens: input, completion_tokens: out } }], vendor);
    t.equal(asked.length, 1);
    const unasked = await gate.ask("openai-chat", vendor, { body: silent });
    t.notMatch(unasked.text, /"prompt_tokens"|"choices":\[\]/, `${vendor}: not requested`);
    const claude = events((await gate.ask("anthropic-messages", vendor)).text);
    const usage = (type: string) => claude.find((event) => event["type"] === type);
    t.match(at(usage("message_start"), "message.usage"), { input_tokens: Number, output_tokens: Number }, vendor);
    t.ok(Number(at(usage("message_start"), "message.usage.output_tokens")) <= 1, "some add the two");
    t.match(at(usage("message_delta"), "usage"), { output_tokens: out }, vendor);
    if (vendor !== "anthropic-messages")
      t.match(at(usage("message_delta"), "usage"), { input_tokens: input - cached, cache_read_input_tokens: cached });
    const google = events((await gate.ask("gemini", vendor)).text).at(-1);
    t.match(google, { usageMetadata: { promptTokenCount: input, candidatesTokenCount: out } }, vendor);
    const responses = events((await gate.ask("openai-responses", vendor)).text).at(-1);
    t.match(responses, { response: { usage: { input_tokens: input, output_tokens: out } } }, vendor);
  }
});

/** An error in each protocol's shape. */
const SHAPES: Record<ProtocolName, object> = {
  "openai-chat": { error: { message: /./, type: String, code: String } },
  "openai-responses": { error: { message: /./, type: String, code: String } },
  "anthropic-messages": { type: "error", error: { type: String, message: /./ }, request_id: /./ },
  gemini: { error: { code: Number, message: /./, status: String } },
};

gathered(t, "an id on every answer, the caller's own error shape for every error", async (t) => {
  const gate = await gateway(t, "body: { limit: 64KiB }\n");
  const isError = async (client: ProtocolName, status: number, response: Response, way: string) => {
    t.equal(response.status, status, way);
    t.match(response.headers.get("content-type"), /^application\/json/, way);
    hasId(client, response.headers, way);
    t.match(await response.json().catch(() => undefined), SHAPES[client], way);
  };
  const hasId = (client: ProtocolName, headers: Headers, way: string) =>
    t.match(headers.get(client === "anthropic-messages" ? "request-id" : "x-request-id"), /./, way);
  for (const [client, vendor] of PAIRS) {
    const way = `${client} ← ${vendor}`;
    const [path, body] = [pathFor(client, `of-${vendor}`), { model: `of-${vendor}`, ...PLAIN[client] }];
    hasId(client, (await gate.fine(path, body)).headers, way);
    hasId(client, (await gate.ask(client, vendor)).headers, `${way}, streamed`);
    await isError(client, 401, await fetch(gate.running.url + path, { method: "POST" }), way);
    const wrong = { authorization: "Bearer wrong-key-0123456789" };
    await isError(client, 401, await gate.post(path, body, wrong), way);
    await isError(client, 404, await gate.post(pathFor(client, "none"), { ...body, model: "none" }), way);
    await isError(client, 400, await gate.post(path, '{"model":'), way);
    await isError(client, 413, await gate.post(path, { ...body, metadata: "x".repeat(70_000) }), way);
    gate.answer((reply) => reply.destroy());
    await isError(client, 502, await gate.post(path, body), `${way}, nothing but an end`);
    for (const [status, text, type] of [
      [403, "<html>Forbidden</html>", "text/html"],
      [404, "", "text/plain"],
      [413, "<html>Too large</html>", "text/html"],
      [429, "<html>Later</html>", "text/html"],
      [500, "", "text/html"],
      [503, "<html>Sorry</html>", "text/html"],
    ] as const) {
      gate.answer(answering(status, text, { "content-type": type }));
      const told = status === 503 && client === "anthropic-messages" && client !== vendor ? 529 : status;
      await isError(client, told, await gate.post(path, body), `${way}, a page with ${status}`);
    }
    gate.answer(speaking("text"));
  }
});

/** What a provider says in each protocol when something will not pass, and when it will. */
const REFUSED: Record<ProtocolName, (type: string, code: string, status: string) => JsonObject> = {
  "openai-chat": (type, code) => ({ error: { message: "Refused.", type, code, param: null } }),
  "openai-responses": (type, code) => ({ error: { message: "Refused.", type, code, param: null } }),
  "anthropic-messages": (type) => ({ type: "error", error: { type, message: "Refused." } }),
  gemini: (_, __, status) => ({ error: { code: 1, message: "Refused.", status } }),
};

gathered(
  t,
  "errors before the first byte as a status, retry-after (-ms); x-should-retry: false where it is",
  async (t) => {
    const gate = await gateway(t);
    const final: [status: number, type: string, code: string, grpc: string][] = [
      [401, "authentication_error", "invalid_api_key", "UNAUTHENTICATED"],
      [402, "billing_error", "insufficient_quota", "FAILED_PRECONDITION"],
      [403, "permission_error", "permission_denied", "PERMISSION_DENIED"],
      [404, "not_found_error", "model_not_found", "NOT_FOUND"],
    ];
    for (const [client, vendor] of PAIRS)
      for (const stream of [true, false]) {
        const way = `${client} ← ${vendor}, ${stream ? "streamed" : "whole"}`;
        const json = { "content-type": "application/json" };
        for (const [status, ...words] of final) {
          gate.answer(answering(status, JSON.stringify(REFUSED[vendor](...words)), json));
          const { headers, status: told } = await gate.ask(client, vendor, { stream });
          t.equal(told, status, way);
          t.equal(headers.get("x-should-retry"), "false", `${way}, ${status}`);
          t.equal(headers.has("www-authenticate"), status === 401, `${way}, ${status}`);
        }
        const limited = JSON.stringify(
          REFUSED[vendor]("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"),
        );
        gate.answer(answering(429, limited, { ...json, "retry-after": "3", "retry-after-ms": "2500" }));
        const { headers, status } = await gate.ask(client, vendor, { stream });
        t.equal(status, 429, way);
        t.equal(headers.get("retry-after"), "3", way);
        t.equal(headers.get("retry-after-ms"), "2500", way);
        t.not(headers.get("x-should-retry"), "false", way);
        if (!vendor.startsWith("openai")) continue;
        const spent = JSON.stringify(REFUSED[vendor]("insufficient_quota", "insufficient_quota", ""));
        gate.answer(answering(429, spent, json));
        const told = await gate.ask(client, vendor, { stream });
        t.equal(told.headers.get("x-should-retry"), "false", `${way}: no credit, as a 429`);
        if (client === vendor) t.equal(told.text, spent, "in the provider's own words");
      }
    for (const client of PROTOCOLS) {
      const unknown = await gate.post(pathFor(client, "none"), { ...PLAIN[client], model: "none" });
      t.same([unknown.status, unknown.headers.get("x-should-retry")], [404, "false"], client);
      const wrong = await gate.post(pathFor(client, "none"), {}, { authorization: "Bearer wrong-key-0123456789" });
      t.same([wrong.status, wrong.headers.get("x-should-retry")], [401, "false"], client);
      t.match(wrong.headers.get("www-authenticate"), /^Bearer realm=/, client);
    }
  },
);

gathered(t, "context overflow: in each client's own words, translated between protocols", async (t) => {
  const gate = await gateway(t);
  const said: Record<ProtocolName, JsonObject> = {
    "openai-chat": {
      error: {
        message: "This model's maximum context length is 8 tokens.",
        type: "invalid_request_error",
        code: "context_length_exceeded",
      },
    },
    "openai-responses": {
      error: {
        message: "Your input exceeds the context window of this model.",
        type: "invalid_request_error",
        code: "context_length_exceeded",
      },
    },
    "anthropic-messages": {
      type: "error",
      error: { type: "invalid_request_error", message: "prompt is too long: 9 tokens > 8 maximum" },
    },
    gemini: {
      error: {
        code: 400,
        message: "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        status: "INVALID_ARGUMENT",
      },
    },
  };
  const openai = {
    code: "context_length_exceeded",
    type: "invalid_request_error",
    message: /maximum context length|exceeds the context window/,
  };
  const looked: Record<ProtocolName, object> = {
    "openai-chat": { error: openai },
    "openai-responses": { error: openai },
    "anthropic-messages": { error: { type: "invalid_request_error", message: /^prompt is too long: / } },
    gemini: {
      error: { code: 400, status: "INVALID_ARGUMENT", message: /exceeds the maximum number of tokens allowed/ },
    },
  };
  for (const [client, vendor] of PAIRS)
    for (const stream of [true, false]) {
      gate.answer(answering(400, JSON.stringify(said[vendor])));
      const { status, text } = await gate.ask(client, vendor, { stream });
      t.equal(status, 400, `${client} ← ${vendor}`);
      t.match(JSON.parse(text), looked[client], `${client} ← ${vendor}`);
    }
});

t.test("refusals also as text; a call without arguments as {}; never a 200 with an empty answer", async (t) => {
  const gate = await gateway(t);
  const inText: Record<ProtocolName, string> = {
    "openai-chat": "choices.0.message",
    "openai-responses": "output.0.content.0",
    "anthropic-messages": "content.0.text",
    gemini: "candidates.0.content.parts.0.text",
  };
  const inCall: Record<ProtocolName, string> = {
    "openai-chat": "choices.0.message.tool_calls.0.function.arguments",
    "openai-responses": "output.0.arguments",
    "anthropic-messages": "content.0.input",
    gemini: "candidates.0.content.parts.0.functionCall.args",
  };
  const say = async (line: AnswerKind, client: ProtocolName, vendor: ProtocolName): Promise<unknown> => {
    gate.answer(speaking(line));
    return JSON.parse((await gate.ask(client, vendor, { stream: false })).text);
  };
  for (const [client, vendor] of PAIRS) {
    const way = `${client} ← ${vendor}`;
    const refusal = at(await say("refusal", client, vendor), inText[client]);
    t.match(JSON.stringify(refusal), REFUSAL, way);
    if (client === vendor) continue;
    const args = at(await say("bare-call", client, vendor), inCall[client]);
    t.same(client.startsWith("openai") ? args : JSON.stringify(args), "{}", way);
  }
  for (const client of PROTOCOLS.filter((name) => name !== "gemini")) {
    const malformed = candidate([], "MALFORMED_FUNCTION_CALL", { finishMessage: "Malformed function call: f(" });
    gate.answer(answering(200, JSON.stringify(malformed)));
    const { status } = await gate.ask(client, "gemini", { stream: false });
    t.equal(status, 502, `${client}: a failed call is not an empty answer`);
    gate.answer(answering(200, JSON.stringify({ usageMetadata: {} })));
    t.equal((await gate.ask(client, "gemini", { stream: false })).status, 502, `${client}: no answer`);
  }
});
