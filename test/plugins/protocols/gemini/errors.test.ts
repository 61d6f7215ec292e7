import { GoogleGenAI } from "@google/genai";
import { GoogleGenAI as GoogleGenAI2 } from "@google/genai-2";
import t from "tap";
import { parseErrorResponse, parseRpcError } from "../../../../plugins/protocols/gemini/errors.ts";
import protocol from "../../../../plugins/protocols/gemini/index.ts";
import { type ErrorCode, GatewayError, REFUSALS } from "../../../../src/core/errors.ts";
import type { Operation } from "../../../../src/core/protocol.ts";
import { Frame } from "../../../../src/wire/frame.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { breaking } from "../../../support/breaking.ts";
import { recorded } from "../../../support/recorded.ts";

const SDKS = { "genai 3": GoogleGenAI, "genai 2": GoogleGenAI2 as unknown as typeof GoogleGenAI };

const operation = (query: string) =>
  protocol.locate("/v1beta/models/*", "m:streamGenerateContent", new URLSearchParams(query))?.operation as Operation;
const state = (query: string, last?: string) => ({
  operation: operation(query),
  frames: last === undefined ? 0 : 1,
  first: undefined,
  last: last === undefined ? undefined : new Frame(query === "" ? "element" : "event", Buffer.from(last)),
});
const cut = new GatewayError("upstream_truncated");
const OBJECT =
  '{"error":{"code":502,"message":"The provider broke off in the middle of its answer.","status":"UNAVAILABLE","details":[' +
  '{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UPSTREAM_TRUNCATED","domain":"model-gateway"},' +
  '{"@type":"type.googleapis.com/google.rpc.RequestInfo","requestId":"id-1"}]}}';

t.test("an error is the vendor's body with its details", async (t) => {
  t.equal(protocol.error(cut, "id-1"), OBJECT);
  const busy = new GatewayError("no_target", { retryAfter: 7, param: "contents.0" });
  t.match(JSON.parse(protocol.error(busy, "id")), {
    error: {
      code: 503,
      status: "UNAVAILABLE",
      details: [
        { "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "NO_TARGET" },
        { "@type": "type.googleapis.com/google.rpc.RequestInfo", requestId: "id" },
        { "@type": "type.googleapis.com/google.rpc.BadRequest", fieldViolations: [{ field: "contents.0" }] },
        { "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" },
      ],
    },
  });
});

t.test("an unknown key has the vendor's reason", async (t) => {
  const { error } = JSON.parse(protocol.error(new GatewayError("invalid_api_key"), "id"));
  t.match(error, { code: 401, status: "UNAUTHENTICATED", details: [{ reason: "API_KEY_INVALID" }] });
});

t.test("a prompt that is too long is reported in the words that the vendor's clients look for", async (t) => {
  const told = (message: string) =>
    JSON.parse(protocol.error(new GatewayError("context_length_exceeded", { message }), "id")).error;
  const words = "The input token count exceeds the maximum number of tokens allowed";
  t.match(told("prompt is too long: 210000 tokens > 200000 maximum"), {
    code: 400,
    status: "INVALID_ARGUMENT",
    message: `${words}: prompt is too long: 210000 tokens > 200000 maximum`,
  });
  const own = "prompt is too long: The input token count (9) exceeds the maximum number of tokens allowed (8).";
  t.equal(told(own).message, own, "once");
});

t.test("a plugin's own code is the reason", async (t) => {
  const spent = new GatewayError("team_spent", { status: 402, message: "The team's money is spent." });
  t.match(JSON.parse(protocol.error(spent, "id")).error.details, [{ reason: "TEAM_SPENT" }]);
});

t.test("a key that the vendor does not know is recognised by its reason alone", async (t) => {
  const told = (error: object, status = 400) =>
    protocol.refuses?.(status, Buffer.from(JSON.stringify({ error: { code: 400, ...error } })));
  t.equal(told({ details: [{ reason: "API_KEY_INVALID" }] }), "credential");
  t.equal(told({ details: [{ reason: "API_KEY_INVALID" }] }, 404), undefined);
  t.equal(told({ message: '"reason":"API_KEY_INVALID"', details: [] }), undefined);
  t.equal(told({ details: [{ reason: "FIELD_INVALID" }] }), undefined);
  const denied = { code: 403, status: "PERMISSION_DENIED" };
  for (const message of [
    "You do not have permission to access the File abc or it may not exist.",
    "You do not have permission to access the CachedContent abc or it may not exist.",
    "CachedContent not found (or permission denied)",
  ]) {
    t.equal(told({ ...denied, message }, 403), "object", message);
    t.equal(told({ ...denied, message: `No: ${message}` }, 403), undefined);
    t.equal(told({ message }), undefined);
  }
  t.equal(told({ ...denied, message: "The caller does not have permission" }, 403), undefined);
  const retired = "models/gemini-old is not found for API version v1beta, or is not supported for generateContent.";
  t.equal(told({ code: 404, status: "NOT_FOUND", message: retired }, 404), "target");
  for (const words of ["not found.", "was not found or your project does not have access to it."]) {
    const message = `Publisher Model \`projects/p/locations/us-central1/publishers/google/models/x\` ${words}`;
    t.equal(told({ code: 404, status: "NOT_FOUND", message }, 404), "target", message);
  }
  t.equal(told({ code: 404, status: "NOT_FOUND", message: `No file: ${retired}` }, 404), undefined);
});

t.test("a signature that the vendor did not make is recognised by the message", async (t) => {
  const told = (status: number, message: string) =>
    protocol.refuses?.(status, Buffer.from(JSON.stringify({ error: { code: status, message } })));
  for (const message of [
    "Corrupted thought signature.",
    "Unable to submit request because Thought signature is not valid..",
  ])
    t.equal(told(400, message), "state");
  t.equal(told(403, "Corrupted thought signature."), undefined);
  t.equal(told(400, "Function call is missing a thought_signature in functionCall parts."), undefined);
});

t.test("the reason is the provider's own, where it has one", async (t) => {
  const reason = (providerCode: string) => {
    const fault = new GatewayError("upstream_refused", { status: 429, kind: "rate_limit", providerCode: providerCode });
    return (JSON.parse(protocol.error(fault, "id")) as { error: { details: { reason: string }[] } }).error.details[0]
      ?.reason;
  };
  t.equal(reason("rate_limit_exceeded"), "RATE_LIMIT_EXCEEDED");
  t.equal(reason("model-not.found"), "MODEL_NOT_FOUND");
  t.equal(reason("constructor"), "CONSTRUCTOR");
});

t.test("every refusal of the gateway has its HTTP status and a name of google.rpc.Code", async (t) => {
  const names =
    /^(INVALID_ARGUMENT|FAILED_PRECONDITION|UNAUTHENTICATED|PERMISSION_DENIED|NOT_FOUND|ABORTED|RESOURCE_EXHAUSTED|CANCELLED|INTERNAL|UNAVAILABLE|DEADLINE_EXCEEDED)$/;
  for (const code of Object.keys(REFUSALS) as ErrorCode[])
    t.match(
      JSON.parse(protocol.error(new GatewayError(code), "id")).error,
      { code: REFUSALS[code].status, status: names },
      code,
    );
});

t.test("among events an error is an event that ends with CRLF, whatever the lines before it end with", async (t) => {
  const bytes = protocol.streamError(cut, "id-1", state("alt=sse", "data: {}\r\n\r\n"));
  t.equal(bytes.toString(), `data: ${OBJECT}\r\n\r\n`);
  t.equal(protocol.ending(new Frame("event", bytes)), "error");
});

t.test("in an array an error is the last element, whatever comes before it", async (t) => {
  const text = (last?: string) => protocol.streamError(cut, "id-1", state("", last)).toString();
  t.equal(text(), `[${OBJECT}\n]`);
  t.equal(text('[{"a":1}'), `\n,\r\n${OBJECT}\n]`);
  t.equal(text('[{"a":1}\n,\r\n'), `${OBJECT}\n]`);
  t.equal(text("["), `${OBJECT}\n]`);
  t.equal(text('{"a":1}\n]'), "");
  t.equal((JSON.parse(`[{"a":1}${text('[{"a":1}')}`) as unknown[]).length, 2);
});

const FIRST = 'data: {"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"},"index":0}]}\r\n\r\n';

/** What a client has read of a stream, and what it raised. */
async function stream(Sdk: typeof GoogleGenAI, baseUrl: string): Promise<{ text: string; error: unknown }> {
  const client = new Sdk({ apiKey: "key", httpOptions: { baseUrl } });
  let text = "";
  try {
    for await (const chunk of await client.models.generateContentStream({ model: "m", contents: "Hello" }))
      text += chunk.text ?? "";
  } catch (error) {
    return { text, error };
  }
  return { text, error: undefined };
}

t.test("both SDKs raise an error in a stream that is closed after it", async (t) => {
  const lost = protocol.streamError(cut, "id-1", state("alt=sse", FIRST));
  for (const [name, Sdk] of Object.entries(SDKS)) {
    const apart = await stream(Sdk, await breaking(t, [FIRST, lost]));
    t.match(apart, { text: "Hello", error: { name: "ApiError", status: 502, message: /broke off/ } }, name);
    const first = await stream(Sdk, await breaking(t, [lost]));
    t.match(first, { text: "", error: { name: "ApiError", status: 502 } }, `${name}, nothing written before`);
    const together = await stream(Sdk, await breaking(t, [FIRST + lost]));
    t.match(together, { text: "Hello", error: { name: "ApiError", status: 502 } }, `${name}, all in one piece`);
  }
});

t.test("both SDKs ignore pings before, between and after events", async (t) => {
  const last = FIRST.replace('"index":0', '"finishReason":"STOP","index":0');
  const { ping } = protocol;
  const lost = protocol.streamError(cut, "id-1", state("alt=sse", FIRST));
  for (const [name, Sdk] of Object.entries(SDKS)) {
    const { text, error } = await stream(Sdk, await breaking(t, [ping, ping, FIRST, ping, last, ping, ping, lost]));
    t.equal(text, "HelloHello", name);
    t.match(error, { name: "ApiError", status: 502 }, name);
  }
});

t.test("a ping is white space between elements of an array", async (t) => {
  const { ping } = protocol;
  t.same(JSON.parse(`${ping}[{"a":1}${ping}\n,\r\n{"b":2}${ping}\n]`), [{ a: 1 }, { b: 2 }]);
});

const read = (status: number, body: unknown) =>
  parseErrorResponse(status, new HeaderList(), typeof body === "string" ? body : JSON.stringify(body));

t.test("an error has its kind, its code and its message", async (t) => {
  t.strictSame(read(403, { error: { code: 403, message: "No.", status: "PERMISSION_DENIED" } }), {
    status: 403,
    kind: "permission",
    code: "permission_denied",
    message: "No.",
  });
  t.match(read(503, [{ error: { code: 503, message: "Busy.", status: "UNAVAILABLE" } }]), {
    kind: "overloaded",
    message: "Busy.",
  });
  t.match(read(504, { error: { code: 504, status: "DEADLINE_EXCEEDED" } }), { kind: "timeout" });
});

t.test("a key that the vendor does not know is an authentication error, whatever the status", async (t) => {
  const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
  t.match(read(400, { error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT", details } }), {
    status: 401,
    kind: "authentication",
    message: "API key not valid.",
  });
});

t.test("the time to wait is among the details", async (t) => {
  const limited = (retryDelay: string) =>
    read(429, { error: { code: 429, details: [{ reason: "x" }, { retryDelay }] } });
  t.match(limited("48s"), { kind: "rate_limit", retryAfter: 48 });
  t.match(limited("0.3s"), { retryAfter: 1 });
  t.equal(limited("soon").retryAfter, undefined);
});

t.test("a page, an invalid body or nothing is classified by its status", async (t) => {
  for (const body of ["", "<html>502</html>", "{", "[]", "null", '{"error":null}'])
    t.strictSame(
      read(502, body),
      { status: 502, kind: "upstream", code: "upstream", message: "The provider answered with status 502." },
      body,
    );
  t.match(read(418, "short and stout"), { status: 418, kind: "invalid" });
  t.match(read(400, { error: "No such thing." }), { kind: "invalid", message: "No such thing." });
});

t.test("an error in a stream has its own status, if that is one", async (t) => {
  t.match(parseRpcError(502, { code: 429, status: "RESOURCE_EXHAUSTED", message: "x" }), {
    status: 429,
    kind: "rate_limit",
  });
  t.match(parseRpcError(502, { code: 7, message: "x" }), { status: 502, kind: "upstream", message: "x" });
});

const errors = recorded("gemini").filter(({ status }) => status >= 400);

t.test("every recorded error is decoded", { skip: errors.length === 0 && "no recordings" }, async (t) => {
  for (const { id, status, body } of errors) {
    const fault = read(status, body);
    t.ok(fault.status === status || fault.code === "invalid_api_key", id);
    t.notMatch(fault.message, /^The provider answered/, id);
  }
});
