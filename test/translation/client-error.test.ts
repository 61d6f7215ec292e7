import t from "tap";
import { type Fault } from "../../src/core/fault.ts";
import { toClientError } from "../../src/translation/client-error.ts";
import { HeaderList } from "../../src/wire/headers.ts";

const fault = (status: number, kind: Fault["kind"], message = "Because.", code: string = kind): Fault => ({
  status,
  kind,
  code,
  message,
});
const headers = (...lines: string[]) => new HeaderList(lines);

t.test("status, kind, message and the provider's own code stay", async (t) => {
  t.match(toClientError({ ...fault(400, "invalid", "Bad field.", "invalid_value"), param: "x" }), {
    code: "upstream_refused",
    status: 400,
    kind: "invalid",
    message: "Bad field.",
    providerCode: "invalid_value",
    param: "x",
    retry: false,
  });
  for (const [status, kind] of [
    [402, "billing"],
    [404, "not_found"],
    [413, "too_large"],
    [429, "rate_limit"],
    [500, "internal"],
    [504, "timeout"],
  ] as const)
    t.match(toClientError(fault(status, kind)), { status, kind });
});

t.test("a retry is advised where it may help, unless the provider advises against it", async (t) => {
  t.equal(toClientError(fault(429, "billing")).retry, false, "no credit is left");
  for (const [status, retry] of [
    [400, false],
    [402, false],
    [404, false],
    [408, true],
    [409, true],
    [429, true],
    [500, true],
    [503, true],
  ] as const)
    t.equal(toClientError(fault(status, "internal")).retry, retry, `${status}`);
  t.equal(toClientError(fault(429, "rate_limit"), headers("x-should-retry", "false")).retry, false);
  t.equal(toClientError(fault(400, "invalid"), headers("x-should-retry", "true")).retry, true);
});

t.test("the time to wait is kept, in each of its forms", async (t) => {
  const wait = (...lines: string[]) => toClientError(fault(429, "rate_limit"), headers(...lines)).retryAfter;
  t.equal(wait(), undefined);
  t.equal(wait("retry-after", "12"), 12);
  t.equal(wait("retry-after", "12", "retry-after-ms", "1500"), 1.5);
  t.equal(wait("retry-after", "soon"), undefined);
  t.equal(wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), 0);
  t.equal(
    toClientError({ ...fault(429, "rate_limit"), retryAfter: 7 }, headers()).retryAfter,
    7,
    "also where the body contains it",
  );
});

t.test("an overloaded service has the status that the client's protocol has for it", async (t) => {
  t.equal(toClientError(fault(529, "overloaded")).status, 503);
  t.equal(toClientError(fault(503, "overloaded"), undefined, 529).status, 529);
});

t.test("an error about our credential is a 401 that is not to be retried, with a message of our own", async (t) => {
  t.match(toClientError(fault(403, "permission"), headers()), { status: 403, kind: "permission", message: /Because/ });
  for (const each of [fault(401, "authentication"), fault(400, "authentication")]) {
    const error = toClientError(each, headers());
    t.match(error, { code: "upstream_refused", status: 401, kind: "authentication", retry: false });
    t.match(error.message, /gateway's credential.*not about the key of the client/s);
    t.notMatch(error.message, /Because/, "it may show a part of the credential");
    t.equal(error.cause, "Because.", "the log has it");
  }
});

t.test("a prompt that is too long is reported in words that clients of every protocol look for", async (t) => {
  for (const each of [
    fault(400, "invalid", "This model's maximum context length is 128000 tokens.", "context_length_exceeded"),
    fault(400, "invalid", "prompt is too long: 213462 tokens > 200000 maximum"),
    fault(
      400,
      "invalid",
      "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
      "INVALID_ARGUMENT",
    ),
    fault(413, "too_large", "Your input exceeds the context window of this model."),
  ]) {
    const error = toClientError(each);
    t.match(error, { code: "context_length_exceeded", status: 400, kind: "invalid", retry: false });
    t.match(error.message, /^prompt is too long: /);
  }
  t.equal(toClientError(fault(500, "internal", "The context window moved.")).code, "upstream_refused");
  const rate = "Rate limit reached: too many tokens per minute, the limit of the model is 250000.";
  t.equal(toClientError(fault(429, "rate_limit", rate)).code, "upstream_refused");
});

t.test("other vendors' and servers' words for it are recognised, and no limit of a minute", async (t) => {
  for (const message of [
    "prompt too long; exceeded max context length by 1119046 tokens",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Invalid request: Your request exceeded model token limit: 262144",
    "request (5078 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "The decoder prompt (length 9000) is longer than the maximum model length of 4096.",
    "Please reduce the length of the messages or completion.",
    "Input is too long for requested model.",
    "Prompt exceeds max length",
    "input length and `max_tokens` exceed context limit: 195000 + 32000 > 200000",
    "prompt token count of 140000 exceeds the limit of 128000",
  ])
    t.equal(toClientError(fault(400, "invalid", message)).code, "context_length_exceeded", message);
  const coded = fault(400, "invalid", "The total length of all messages is too long.", "too_many_prompt_tokens");
  t.equal(toClientError(coded).code, "context_length_exceeded");
  for (const message of [
    "Request too large for gpt-5 on tokens per min (TPM): Limit 30000, Requested 50000.",
    "Rate limit reached on tokens per minute (TPM), please reduce your message size and try again.",
    "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
    "tools.0.function.name exceeds max length of 64",
    "stop sequence exceeds maximum length",
  ])
    t.equal(toClientError(fault(429, "rate_limit", message)).code, "upstream_refused", message);
});

t.test(
  "a failure in the gateway's own words is reported as such, and an empty message contains the status",
  async (t) => {
    t.match(toClientError(fault(502, "upstream", "", "upstream_truncated")), {
      code: "upstream_truncated",
      status: 502,
      retry: true,
      providerCode: undefined,
    });
    t.match(toClientError(fault(500, "internal", "A page.", "upstream_failed")), {
      code: "upstream_failed",
      status: 500,
    });
    t.equal(toClientError(fault(503, "overloaded", "")).message, "The provider answered 503.");
  },
);
