import t from "tap";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { translation } from "./speaking.ts";

const failure = (status: number, text: string) => translation.response.failure(status, new HeaderList(), text);

t.test("the vendor's error types tell what went wrong", async (t) => {
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

t.test("what a proxy before the vendor says is told by its status", async (t) => {
  for (const text of ["", "<html><body>Bad Gateway</body></html>", "null", "[]", '{"error":1}', '{"error":""}'])
    t.match(failure(502, text), { status: 502, kind: "upstream", message: /502/ }, text);
  t.match(failure(503, ""), { kind: "overloaded" });
  t.match(failure(404, "<html>"), { kind: "not_found" });
  t.match(failure(418, ""), { kind: "invalid" });
});

t.test("a type that says nothing leaves it to the status what went wrong", async (t) => {
  const body = JSON.stringify({ type: "error", error: { type: "api_error", message: "Why" } });
  const kinds = { 500: "internal", 502: "upstream", 503: "overloaded", 504: "timeout" };
  for (const [status, kind] of Object.entries(kinds)) t.match(failure(Number(status), body), { kind }, status);
});

t.test("the error's own code goes first", async (t) => {
  const error = { type: "invalid_request_error", message: "Why", details: { error_code: "model_retired" } };
  t.match(failure(400, JSON.stringify({ type: "error", error })), { code: "model_retired" });
});

t.test("the words of a proxy or of an imitation are told where it writes them elsewhere", async (t) => {
  for (const body of [{ error: "Why" }, { message: "Why" }, { detail: "Why" }, { error: { message: "Why" } }])
    t.match(
      failure(404, JSON.stringify(body)),
      { status: 404, kind: "not_found", message: "Why" },
      JSON.stringify(body),
    );
});
