import t from "tap";
import { failure, faultOf } from "../../../../plugins/protocols/gemini/response.failure.ts";
import { HeaderList } from "../../../../src/wire/headers.ts";
import { recorded } from "../../../support/recorded.ts";

const read = (status: number, body: unknown) =>
  failure(status, new HeaderList(), typeof body === "string" ? body : JSON.stringify(body));

t.test("an error says its kind, its word and its message", async (t) => {
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

t.test("a key that the vendor does not know is about who asks, whatever the status", async (t) => {
  const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
  t.match(read(400, { error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT", details } }), {
    status: 401,
    kind: "authentication",
    message: "API key not valid.",
  });
});

t.test("how long to wait stands among the details", async (t) => {
  const limited = (retryDelay: string) =>
    read(429, { error: { code: 429, details: [{ reason: "x" }, { retryDelay }] } });
  t.match(limited("48s"), { kind: "rate_limit", retryAfter: 48 });
  t.match(limited("0.3s"), { retryAfter: 1 });
  t.equal(limited("soon").retryAfter, undefined);
});

t.test("a page, a broken body or nothing is a fault of that status", async (t) => {
  for (const body of ["", "<html>502</html>", "{", "[]", "null", '{"error":null}'])
    t.strictSame(
      read(502, body),
      { status: 502, kind: "upstream", code: "upstream", message: "The provider answered with status 502." },
      body,
    );
  t.match(read(418, "short and stout"), { status: 418, kind: "invalid" });
  t.match(read(400, { error: "No such thing." }), { kind: "invalid", message: "No such thing." });
});

t.test("an error in a stream tells its own status, if that is one", async (t) => {
  t.match(faultOf(502, { code: 429, status: "RESOURCE_EXHAUSTED", message: "x" }), { status: 429, kind: "rate_limit" });
  t.match(faultOf(502, { code: 7, message: "x" }), { status: 502, kind: "upstream", message: "x" });
});

const errors = recorded("gemini").filter(({ status }) => status >= 400);

t.test("every recorded error is read", { skip: errors.length === 0 && "no recordings" }, async (t) => {
  for (const { id, status, body } of errors) {
    const fault = read(status, body);
    t.ok(fault.status === status || fault.code === "invalid_api_key", id);
    t.notMatch(fault.message, /^The provider answered/, id);
  }
});
