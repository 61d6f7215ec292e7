import t from "tap";
import { errorBody, parseError, parseErrorResponse, refuses } from "../../../../plugins/protocols/openai/errors.ts";
import { GatewayError } from "../../../../src/core/errors.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { receiving, SDKS } from "../../../support/openai-sdks.ts";
import { recorded } from "../../../support/recorded.ts";
import { MEMBERS } from "./members.ts";

t.test("an error body has message, type, param and code, even when they are unknown", async (t) => {
  const body = (...about: ConstructorParameters<typeof GatewayError>) =>
    JSON.parse(errorBody(new GatewayError(...about)));
  t.same(body("invalid_field", { message: "n must be 1.", param: "n" }), {
    error: { message: "n must be 1.", type: "invalid_request_error", param: "n", code: "invalid_field" },
  });
  t.same(body("invalid_api_key", { message: "Unknown." }), {
    error: { message: "Unknown.", type: "invalid_request_error", param: null, code: "invalid_api_key" },
  });
  t.same(body("model_not_found", { message: "No such model.", param: "model" }), {
    error: { message: "No such model.", type: "invalid_request_error", param: "model", code: "model_not_found" },
  });
  t.same(body("upstream_unreachable", { message: "Gone." }), {
    error: { message: "Gone.", type: "server_error", param: null, code: "upstream_unreachable" },
  });
});

t.test("a prompt that is too long is reported in the words that the vendor's clients look for", async (t) => {
  const told = (message: string) =>
    JSON.parse(errorBody(new GatewayError("context_length_exceeded", { message }))).error.message;
  const words = "Your input exceeds the context window of this model";
  const long = "prompt is too long: 9 tokens > 8 maximum";
  t.equal(told(long), `This model's maximum context length is exceeded. ${words}: ${long}`, "old words and new ones");
  for (const own of ["This model's maximum context length is 8 tokens.", `${words}.`])
    t.equal(told(`prompt is too long: ${own}`), `prompt is too long: ${own}`, "once");
});

t.test("an error of the provider behind another one has that provider's message", async (t) => {
  const read = (raw: unknown, message = "Provider returned error") =>
    parseErrorResponse(400, undefined, JSON.stringify({ error: { message, code: 400, metadata: { raw } } })).message;
  const long = "This model's maximum context length is 8 tokens.";
  t.equal(read(JSON.stringify({ error: { message: long } })), `Provider returned error: ${long}`);
  t.equal(read(JSON.stringify({ message: long })), `Provider returned error: ${long}`);
  t.equal(read(JSON.stringify({ error: long })), `Provider returned error: ${long}`);
  t.equal(read(`${long}${"x".repeat(1000)}`).length, "Provider returned error: ".length + 500, "a text");
  for (const raw of [undefined, "", "{}", 7, "[]", '{"error":{}}'])
    t.match(read(raw), /^Provider returned error/, JSON.stringify(raw));
  t.equal(read(JSON.stringify({ error: { message: long } }), "Bad request."), "Bad request.");
});

t.test("rate limits and billing have the vendor's own codes", async (t) => {
  const about = { status: 429, code: "ours", message: "Wait." };
  t.match(JSON.parse(errorBody({ ...about, kind: "rate_limit" })), { error: { code: "rate_limit_exceeded" } });
  t.match(JSON.parse(errorBody({ ...about, kind: "billing" })), {
    error: { type: "insufficient_quota", code: "insufficient_quota" },
  });
});

t.test("a key that is missing, revoked or disabled has the vendor's one code, which clients look for", async (t) => {
  for (const code of ["missing_api_key", "invalid_api_key", "revoked_api_key", "disabled_api_key"] as const)
    t.match(JSON.parse(errorBody(new GatewayError(code))), { error: { code: "invalid_api_key" } }, code);
});

t.test("a plugin's own code stays, whatever its status", async (t) => {
  for (const status of [400, 401, 402, 403, 429, 500]) {
    const fault = new GatewayError("team_spent", { status, message: "The team's money is spent." });
    t.match(JSON.parse(errorBody(fault)), { error: { code: "team_spent" } }, `${status}`);
  }
});

for (const [folder, { protocol, ask }] of Object.entries(MEMBERS)) {
  t.test(`${folder}: these are its errors`, async (t) => {
    t.equal(protocol.error, errorBody);
  });

  for (const [name, Sdk] of Object.entries(SDKS)) {
    t.test(`${folder}: ${name} throws it with its status, type, param and code`, async (t) => {
      const fault = new GatewayError("model_not_found", { message: "No such model.", param: "model" });
      const client = receiving(Sdk, protocol.error(fault, "id"), fault.status, "application/json");
      await t.rejects(ask(client, "m"), {
        name: "Error",
        status: 404,
        type: "invalid_request_error",
        param: "model",
        code: "model_not_found",
        message: "404 No such model.",
      });
    });
  }
}

const read = (status: number, text: string) => parseErrorResponse(status, new HeaderList(), text);

t.test("the vendor's message is kept with the kind that the status implies", async (t) => {
  const body = JSON.stringify({
    error: { message: "No such model.", type: "invalid_request_error", param: "model", code: "model_not_found" },
  });
  t.same(read(404, body), {
    status: 404,
    kind: "not_found",
    code: "model_not_found",
    message: "No such model.",
    param: "model",
  });
});

t.test("an exhausted credit is no rate limit", async (t) => {
  const body = JSON.stringify({ error: { message: "m", type: "insufficient_quota", code: "insufficient_quota" } });
  t.match(read(429, body), { status: 429, kind: "billing", code: "insufficient_quota" });
  t.match(read(429, "{}"), { kind: "rate_limit" });
});

t.test("other vendors' forms are decoded", async (t) => {
  for (const body of [
    '{"error":"m"}',
    '{"message":"m"}',
    '{"detail":"m"}',
    '[{"error":{"message":"m"}}]',
    '{"error":{"message":"m","code":400}}',
  ])
    t.match(read(400, body), { kind: "invalid", message: "m" }, body);
});

t.test("an unknown key is recognised also where the vendor answers 400", async (t) => {
  const google = { code: 400, message: "API key not valid.", details: [{ reason: "API_KEY_INVALID" }] };
  const words = "Incorrect API key provided. You can obtain an API key from https://console.x.test.";
  for (const [body, refused] of [
    [[{ error: google }], true],
    [{ code: "invalid-argument", error: words }, true],
    [{ error: { message: words } }, false],
    [{ error: { ...google, details: [{ reason: "FIELD_INVALID" }], message: '"reason":"API_KEY_INVALID"' } }, false],
  ] as const) {
    const text = JSON.stringify(body);
    t.equal(refuses(400, Buffer.from(text)), refused ? "credential" : undefined, text);
    t.equal(refuses(404, Buffer.from(text)), undefined);
    const { status, kind } = parseErrorResponse(400, new HeaderList(), text);
    t.same([status, kind], refused ? [401, "authentication"] : [400, "invalid"]);
  }
});

t.test("a refusal of content, or of one call, is distinguished from one of the key", async (t) => {
  const denied = "The caller does not have permission to execute the specified operation";
  const content = "Content violates usage guidelines. Team: t, Model: m, Failed check: SAFETY_CHECK_TYPE_BIO";
  const flagged = "Your chosen model requires moderation and your input was flagged";
  const metadata = { reasons: ["violence"], flagged_input: "…", provider_name: "p", model_slug: "m" };
  const tooLarge = (words: string) =>
    `Request too large for m in organization o on tokens per min (TPM): Limit ${words}.`;
  const limited = "You have insufficient permissions for this operation. Missing scopes: api.responses.write.";
  for (const [status, body, refused] of [
    [403, { code: denied, error: content }, "request"],
    [403, { error: { code: 403, message: flagged, metadata } }, "request"],
    [401, { error: { message: limited } }, "target"],
    [403, { error: { message: limited } }, "target"],
    [403, { code: denied, error: `The model m has no access. ${content}` }, undefined],
    [403, { error: { code: 403, message: flagged, metadata: { provider_name: "p" } } }, undefined],
    [401, { error: { code: "invalid_api_key", message: "Incorrect API key provided: x***." } }, undefined],
    [401, { code: denied, error: content }, undefined],
    [429, { error: { message: tooLarge("30000, Requested 50000"), type: "tokens" } }, "request"],
    [429, { error: { message: tooLarge("30,000, Used 10, Requested 50,000"), type: "tokens" } }, "request"],
    [429, { error: { message: tooLarge("30000, Used 29000, Requested 2000"), type: "tokens" } }, undefined],
    [429, { error: { message: "Rate limit reached", type: "requests" } }, undefined],
    [404, { error: { code: "model_not_found", message: "The model `m` does not exist …", param: null } }, "target"],
    [400, { error: { code: "model_not_found", message: "The requested model 'm' does not exist." } }, "target"],
    [404, { error: { code: null, message: "model_not_found: No such file" } }, undefined],
    [404, { object: "error", message: "The model `m` does not exist.", type: "NotFoundError", code: 404 }, "target"],
    [404, { error: { message: "The model `m` does not exist.", type: "NotFoundError", code: 404 } }, "target"],
    [404, { error: { message: 'model "m:8b" not found, try pulling it first', type: "api_error" } }, "target"],
    [404, { error: { message: "model 'm' not found", type: "not_found_error", code: null } }, "target"],
    [400, { error: { message: "The model `m` does not exist.", type: "NotFoundError" } }, undefined],
    [404, { error: { message: "The file of the model `m` does not exist.", code: null } }, undefined],
    [
      404,
      { error: { type: "invalid_request_error", code: "DeploymentNotFound", message: "The API deployment …" } },
      "target",
    ],
    [
      400,
      { error: { type: "invalid_request_error", code: "model_decommissioned", message: "The model `m` …" } },
      "target",
    ],
    [400, { error: { code: "model_not_available", message: "Unable to access non-serverless model m." } }, "target"],
    [400, { error: { code: "dedicated_endpoint_not_running", message: "The dedicated endpoint for m …" } }, "target"],
    [400, { error: { type: "invalid_model", code: 400, message: "Invalid model 'm'. Permitted models …" } }, "target"],
    [400, { error: { code: "invalid_request_error", message: "Model Not Exist" } }, "target"],
    [400, { code: "Client specified an invalid argument", error: "Model not found: m" }, "target"],
    [404, { code: "Some …", error: "The model m does not exist or your team t does not have access to it." }, "target"],
    [404, { error: { code: "NOT_FOUND", message: "Model not found, inaccessible, and/or not deployed" } }, "target"],
    [400, { object: "error", message: "Invalid model: m", type: "invalid_model", code: "1500" }, "target"],
    [400, { error: { code: "1211", message: "Unknown Model, please check the model code." } }, "target"],
    [
      404,
      { error: { type: "resource_not_found_error", message: "Not found the model m or Permission denied" } },
      "target",
    ],
    [404, { error: { code: 404, message: "No endpoints found for v/m:free." } }, "target"],
    [400, { error: { code: 400, message: "v/m is not a valid model ID" } }, "target"],
    [404, [{ error: { code: 404, message: "models/m is not found for API version v1main, or …" } }], "target"],
    [404, { error: { code: 404, message: "No endpoints found that support tool use." } }, undefined],
    [400, { error: { message: "The model expects a single `text` element per message." } }, undefined],
    [404, { error: { message: "This is a chat model and not supported in the v1/completions endpoint." } }, undefined],
    [400, { error: { code: "invalid_encrypted_content", message: "The encrypted content … could not …" } }, "state"],
    [400, { error: { code: "invalid_request_error", message: "invalid_encrypted_content" } }, undefined],
    [400, { error: { param: "reasoning.summary", message: "Your organization must be verified to …" } }, "summary"],
    [400, { error: { param: "reasoning.summary", message: "Unsupported value: 'concise'" } }, undefined],
    [400, { error: { param: "stream", message: "Your organization must be verified to …" } }, undefined],
    [403, "no object", undefined],
    [403, null, undefined],
  ] as const)
    t.equal(refuses(status, Buffer.from(JSON.stringify(body))), refused, JSON.stringify(body));
});

t.test("the problems that a vendor lists are its message", async (t) => {
  const problems = [
    { loc: ["body", "messages", 0, "role"], msg: "field required", type: "missing" },
    { msg: "too long" },
    { type: "nothing said" },
    null,
  ];
  const message = "body.messages.0.role: field required; too long";
  for (const body of [
    { detail: problems },
    { object: "error", message: { detail: problems }, type: "invalid_request_error" },
    { error: { message: { detail: problems } } },
  ])
    t.match(read(422, JSON.stringify(body)), { status: 422, message }, JSON.stringify(body));
  const odd = { toString: 1, valueOf: 1 };
  for (const detail of [odd, [odd], [{ loc: [odd], msg: odd }], [{ loc: odd }]])
    t.match(read(422, JSON.stringify({ detail, message: odd })), { message: /422/ });
});

t.test("anything may come instead of JSON", async (t) => {
  for (const body of ["", "<html>", "null", "[]", "3", '"x"'])
    t.match(read(503, body), { status: 503, kind: "overloaded" }, body);
});

t.test("every recorded refusal has its message", async (t) => {
  for (const { id, status, body } of recorded("openai-chat").filter(({ status }) => status >= 400)) {
    const { message } = read(status, body);
    t.ok(body.includes(JSON.stringify(message.replace("Provider returned error: ", "")).slice(1, 40)), id);
  }
});

t.test("an error in a stream has the status in it or implied by its code", async (t) => {
  t.match(parseError({ message: "m", status_code: 400 }), { status: 400, kind: "invalid", message: "m" });
  t.match(parseError({ message: "m", code: 429 }), { status: 429, kind: "rate_limit" });
  t.match(parseError({ message: "m", type: "overloaded_error" }), {
    status: 503,
    kind: "overloaded",
    code: "overloaded_error",
  });
  t.match(parseError({ message: "m", code: 7 }), { status: 502, kind: "upstream" });
  const statuses = {
    ...{ server_error: 500, rate_limit_exceeded: 429, insufficient_quota: 429, server_is_overloaded: 503 },
    ...{ slow_down: 503, usage_not_included: 402, vector_store_timeout: 504, invalid_api_key: 401 },
    ...{
      invalid_prompt: 400,
      context_length_exceeded: 400,
      image_too_large: 400,
      cyber_policy: 400,
      tool_use_failed: 400,
      something_new: 502,
    },
  };
  for (const [code, status] of Object.entries(statuses))
    t.match(parseError({ code, message: "m" }), { code, status }, code);
  const unknown = { code: "something_new", type: "invalid_request_error", message: "m" };
  t.match(parseError(unknown), { code: "something_new", status: 400 }, "by its type");
  t.equal(parseError({ code: "insufficient_quota" }).kind, "billing");
  t.match(parseError({ code: 429, type: "rate_limited", message: "m" }), { status: 429, code: "rate_limited" });
  t.match(parseError({ code: "", type: "", message: "m" }), { status: 502, code: "upstream" });
  for (const status of ["429", 429])
    t.match(parseError({ code: status, message: "m" }), { status: 429, kind: "rate_limit" });
  for (const code of ["1300", "4.3", " 429", "042"]) t.match(parseError({ code, message: "m" }), { status: 502 }, code);
  t.match(parseError({ detail: "m" }), { status: 502, message: "m" });
  t.match(parseError("m"), { status: 502, message: "m" });
  t.match(parseError(undefined), { status: 502 });
});
