import type { Attempt, DoneExchange } from "model-gateway";
import t from "tap";
import { attemptAttributes } from "../../../plugins/opentelemetry/attributes.ts";
import messages from "../../../plugins/protocols/anthropic-messages/index.ts";
import gemini from "../../../plugins/protocols/gemini/index.ts";
import chat from "../../../plugins/protocols/openai-chat/index.ts";
import images from "../../../plugins/protocols/openai-images/index.ts";
import responses from "../../../plugins/protocols/openai-responses/index.ts";
import { Body } from "../../../src/core/body.ts";
import type { Protocol } from "../../../src/core/protocol.ts";
import { HeaderList } from "../../../src/wire/headers.ts";

/** Attributes of an attempt with this body, in the client's protocol. */
function attributesOf(protocol: Protocol, json: object, headers: string[] = []) {
  const body = new Body([Buffer.from(JSON.stringify(json))], "json");
  const operation = { name: "x", generates: true };
  const exchange = {
    protocol,
    body,
    headers: new HeaderList(headers),
    operation,
    credentials: ["a-key-of-the-file-0"],
  };
  const target = { model: "m", provider: { name: "p", url: new URL("https://up.example/v1") } };
  return attemptAttributes(
    exchange as unknown as DoneExchange,
    { target, protocol, body } as unknown as Attempt,
    undefined,
  );
}

t.test("the type of output is what the request asks for, in each protocol", async (t) => {
  const schema = { type: "json_schema", json_schema: { name: "n", schema: {} } };
  for (const [protocol, body, type] of [
    [chat, { response_format: { type: "json_object" } }, "json"],
    [chat, { response_format: schema }, "json"],
    [chat, { response_format: { type: "text" } }, "text"],
    [chat, { modalities: ["text", "audio"] }, "speech"],
    [chat, { modalities: ["text"] }, "text"],
    [responses, { text: { format: { type: "json_schema" } } }, "json"],
    [responses, { text: { verbosity: "low" } }, undefined],
    [messages, { output_config: { format: { type: "json_schema", schema: {} } } }, "json"],
    [messages, { output_config: { effort: "low" } }, undefined],
    [gemini, { generationConfig: { responseMimeType: "application/json" } }, "json"],
    [gemini, { generationConfig: { responseMimeType: "text/plain" } }, "text"],
    [gemini, { generationConfig: { responseModalities: ["TEXT", "IMAGE"] } }, "image"],
    [gemini, { generationConfig: { responseModalities: ["AUDIO"] } }, "speech"],
    [gemini, { generationConfig: null }, undefined],
    [images, { prompt: "a cat" }, "image"],
    [chat, { messages: [] }, undefined],
    [chat, { response_format: "json", modalities: 3 }, undefined],
  ] as const)
    t.equal(attributesOf(protocol, body)["gen_ai.output.type"], type, `${protocol.name} ${JSON.stringify(body)}`);
});

t.test("the conversation is the vendor's stored one, or the session that the client's headers name", async (t) => {
  for (const [protocol, body, headers, id] of [
    [responses, { conversation: "conv_1" }, [], "conv_1"],
    [responses, { conversation: { id: "conv_2" } }, ["session_id", "s-1"], "conv_2"],
    [responses, { prompt_cache_key: "a-cache-key" }, ["session_id", "s-2"], "s-2"],
    [responses, { prompt_cache_key: "a-cache-key" }, [], undefined],
    [messages, { metadata: { user_id: "u-1" } }, ["x-claude-code-session-id", "s-3"], "s-3"],
    [messages, { metadata: { user_id: "u-1" } }, [], undefined],
    [gemini, {}, ["x-session-id", "s-4"], "s-4"],
    [chat, { conversation: 5 }, ["x-session-id", "a sentence of somebody's"], undefined],
    [chat, {}, ["x-session-id", "x".repeat(257)], undefined],
    [chat, {}, ["x-session-id", "a-key-of-the-file-0"], undefined],
    [responses, { conversation: `gw_${"a".repeat(60)}` }, ["session_id", "s-5"], "s-5"],
  ] as const)
    t.equal(attributesOf(protocol, body, [...headers])["gen_ai.conversation.id"], id, JSON.stringify([body, headers]));
});
