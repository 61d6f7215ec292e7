import Anthropic from "@anthropic-ai/sdk";
import t from "tap";
import protocol from "../../../../plugins/protocols/anthropic-messages/index.ts";
import { type ErrorCode, GatewayError, REFUSALS } from "../../../../src/core/errors.ts";
import { type Operation } from "../../../../src/core/protocol.ts";
import { demoAnswer } from "../../../../src/translation/demo.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { breaking } from "../../../support/breaking.ts";
import { events, translation } from "./speaking.ts";

const TYPES = [
  "invalid_request_error",
  "authentication_error",
  "billing_error",
  "permission_error",
  "not_found_error",
  "conflict_error",
  "request_too_large",
  "rate_limit_error",
  "api_error",
  "timeout_error",
  "overloaded_error",
];

t.test("an error is the vendor's body, with the exchange's id", async (t) => {
  t.equal(
    protocol.error(new GatewayError("missing_api_key"), "id-1"),
    '{"type":"error","error":{"type":"authentication_error","message":"No gateway key was sent. Send it as Authorization: ' +
      'Bearer gw_…, x-api-key, x-goog-api-key or ?key=."},"request_id":"id-1"}',
  );
});

t.test("the field at fault comes before the message, once", async (t) => {
  const error = new GatewayError("invalid_field", { message: "must be a list.", param: "messages.0.content" });
  t.match(JSON.parse(protocol.error(error, "id")), { error: { message: "messages.0.content: must be a list." } });
  const named = new GatewayError("invalid_field", { message: "model is missing.", param: "model" });
  t.match(JSON.parse(protocol.error(named, "id")), { error: { message: "model is missing." } });
  const alike = new GatewayError("invalid_field", { message: "models are many.", param: "model" });
  t.match(JSON.parse(protocol.error(alike, "id")), { error: { message: "model: models are many." } });
});

t.test("a plugin's own code is in the details, and its type is one that the SDK knows", async (t) => {
  const spent = { status: 402, message: "The team's money is spent." };
  const error = (details?: object) =>
    JSON.parse(protocol.error(new GatewayError("team_spent", { ...spent, ...details }), "id")).error;
  t.same(error(), { type: "billing_error", message: spent.message, details: { error_code: "team_spent" } });
  t.same(error({ details: { error_code: "theirs", left: 0 } }).details, { error_code: "theirs", left: 0 });
  t.equal(JSON.parse(protocol.error(new GatewayError("insufficient_quota"), "id")).error.details, undefined);
});

t.test("every refusal of the gateway has a type that the SDK knows", async (t) => {
  for (const code of Object.keys(REFUSALS) as ErrorCode[]) {
    const { error } = JSON.parse(protocol.error(new GatewayError(code), "id"));
    t.ok(TYPES.includes(error.type), `${code} is ${error.type}`);
  }
});

const query = new URLSearchParams();
const operation = protocol.locate("/v1/messages", "", query)?.operation as Operation;
const state = { operation, frames: 1, first: undefined, last: undefined };
const lost = protocol.streamError(new GatewayError("upstream_truncated"), "id-2", state);

t.test("an error in a stream is one event with the vendor's name", async (t) => {
  t.equal(
    lost.toString(),
    'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"The provider broke off in the middle of ' +
      'its answer."},"request_id":"id-2"}\n\n',
  );
  t.equal(protocol.ending(new Frame("event", lost)), "error");
});

const started = ["message_start", "content_block_start", "content_block_delta"];

t.test("the SDK raises an error in a stream that is closed after it", async (t) => {
  const request = { operation, model: "echo", body: {}, streaming: true, query };
  const events = demoAnswer(protocol, request).frames.filter(({ bytes }) =>
    started.some((name) => bytes.includes(`event: ${name}\n`)),
  );
  for (const between of [20, 0]) {
    const pieces = [...events.map(({ bytes }) => bytes), lost];
    const baseURL = await breaking(t, pieces, between);
    const client = new Anthropic({ baseURL, apiKey: "key", maxRetries: 0 });
    const stream = client.messages.stream({
      model: "any",
      max_tokens: 9,
      messages: [{ role: "user", content: "Hello" }],
    });
    const error = await stream.finalMessage().catch((thrown) => thrown);
    t.match(error, { type: "api_error", error: { error: { message: /broke off/ } } }, `${between} ms between pieces`);
  }
});

const failure = (status: number, text: string) => translation.response.decodeError(status, new HeaderList(), text);

t.test("the vendor's error types determine the kind of failure", async (t) => {
  const body = (type: string) =>
    JSON.stringify({ type: "error", error: { type, message: "Why" }, request_id: "req_1" });
  t.match(failure(529, body("overloaded_error")), {
    status: 529,
    kind: "overloaded",
    code: "overloaded_error",
    message: "Why",
  });
  t.match(failure(429, body("rate_limit_error")), { status: 429, kind: "rate_limit" });
  t.match(failure(413, body("request_too_large")), { status: 413, kind: "too_large" });
  t.match(failure(402, body("billing_error")), { status: 402, kind: "billing" });
  t.match(failure(400, body("brand_new_error")), { status: 400, kind: "invalid", code: "brand_new_error" });
});

t.test("an error of a proxy in front of the vendor is classified by its status", async (t) => {
  for (const text of ["", "<html><body>Bad Gateway</body></html>", "null", "[]", '{"error":1}', '{"error":""}'])
    t.match(failure(502, text), { status: 502, kind: "upstream", message: /502/ }, text);
  t.match(failure(503, ""), { kind: "overloaded" });
  t.match(failure(404, "<html>"), { kind: "not_found" });
  t.match(failure(418, ""), { kind: "invalid" });
});

t.test("for an unspecific type the status determines the kind of failure", async (t) => {
  const body = JSON.stringify({ type: "error", error: { type: "api_error", message: "Why" } });
  const kinds = { 500: "internal", 502: "upstream", 503: "overloaded", 504: "timeout" };
  for (const [status, kind] of Object.entries(kinds)) t.match(failure(Number(status), body), { kind }, status);
});

t.test("the error's own code takes precedence", async (t) => {
  const error = { type: "invalid_request_error", message: "Why", details: { error_code: "model_retired" } };
  t.match(failure(400, JSON.stringify({ type: "error", error })), { code: "model_retired" });
});

t.test("the message of a proxy or a compatible server is read where it is elsewhere", async (t) => {
  for (const body of [{ error: "Why" }, { message: "Why" }, { detail: "Why" }, { error: { message: "Why" } }])
    t.match(
      failure(404, JSON.stringify(body)),
      { status: 404, kind: "not_found", message: "Why" },
      JSON.stringify(body),
    );
});

t.test("a model that the vendor does not know is distinguished from an object", async (t) => {
  const told = (status: number, type: string, message: string) =>
    protocol.refuses?.(status, Buffer.from(JSON.stringify({ type: "error", error: { type, message } })));
  t.equal(told(404, "not_found_error", "model: claude-old"), "target");
  t.equal(told(404, "not_found_error", "File not found: model: x"), undefined);
  t.equal(told(400, "invalid_request_error", "model: claude-old"), undefined);
  t.equal(protocol.refuses?.(404, Buffer.from("no JSON")), undefined);
  const foreign = "messages.1.content.0: Invalid `signature` in `thinking` block";
  t.equal(told(400, "invalid_request_error", foreign), "state");
  t.equal(told(400, "invalid_request_error", foreign.replaceAll("`", "")), "state");
  t.equal(told(404, "invalid_request_error", foreign), undefined);
  const moved =
    "messages.5.content.2: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be";
  t.equal(told(400, "invalid_request_error", `${moved} modified. These blocks must remain as they were.`), "state");
  for (const why of [
    "messages.1.content.0: Invalid `data` in `redacted_thinking` block",
    "messages.1.content.2: Invalid `encrypted_content` in `search_result` block",
    "messages.1.content.0: Invalid encrypted_index in text block",
    "Failed to decrypt web search result content",
  ])
    t.equal(told(400, "invalid_request_error", why), "state", why);
});

t.test("errors of servers that imitate the protocol have their message and status", async (t) => {
  const decoded = (body: unknown, status = 400) =>
    translation.response.decodeError(status, new HeaderList(), JSON.stringify(body));
  t.match(decoded([{ error: { code: 400, message: "Bad.", status: "INVALID_ARGUMENT" } }]), { message: "Bad." });
  const detail = [{ type: "missing", loc: ["body", "tools", 0, "input_schema"], msg: "Field required" }];
  t.match(decoded({ detail }, 422), { message: "body: tools: 0: input_schema: Field required", status: 422 });
  t.match(decoded({ code: 500, msg: "404 NOT_FOUND", success: false }, 500), { message: "404 NOT_FOUND" });
  const coded = { error: { message: "Overloaded.", type: "ServiceUnavailable", code: 503 } };
  t.match(events([{ type: "error", ...coded }]), [{ type: "error", fault: { status: 503, kind: "overloaded" } }]);
});

t.test("a model that an imitation of the protocol does not have is one that the next target may have", async (t) => {
  const refused = (status: number, message: string) =>
    protocol.refuses?.(status, Buffer.from(JSON.stringify({ error: { message } })));
  for (const [status, message] of [
    [404, "model 'qwen3' not found"],
    [404, "The model `qwen3` does not exist."],
    [404, "Not found the model kimi-k9 or Permission denied"],
    [404, "Publisher Model `projects/p/locations/l/publishers/anthropic/models/claude-x` was not found"],
    [400, "Model Not Exist"],
    [400, "The provided model identifier is invalid."],
    [400, "claude-x is not a valid model ID"],
  ] as const)
    t.equal(refused(status, message), "target", message);
  t.equal(refused(400, "The model `x` is fine"), undefined);
});
