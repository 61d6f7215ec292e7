import t from "tap";
import { type ErrorCode, GatewayError, REFUSALS } from "../../src/core/errors.ts";

t.test("every entry of the table is an error status, a sentence, and says whether to ask again", async (t) => {
  for (const code of Object.keys(REFUSALS) as ErrorCode[]) {
    const error = new GatewayError(code);
    t.ok(error.status >= 400 && error.status < 600, code);
    t.match(error.message, /^[A-Z].*\.$/s, code);
    t.type(error.retry, "boolean");
  }
});

t.test("a message of its own replaces the table's message and hint", async (t) => {
  t.equal(new GatewayError("missing_api_key", { message: "None." }).message, "None.");
  t.equal(
    new GatewayError("invalid_json", { hint: "Mend it." }).message,
    "The request body is not valid JSON. Mend it.",
  );
});

t.test("a foreign throw becomes a failure that keeps it as its cause", async (t) => {
  const thrown = new TypeError("oops");
  const error = GatewayError.from(thrown);
  t.equal(error.code, "internal");
  t.equal(error.cause, thrown);
  t.notMatch(error.message, /oops/);
  t.equal(GatewayError.from(error), error);
});

t.test("a code that stands for several faults takes status, kind, and whether to ask again", async (t) => {
  const plain = new GatewayError("upstream_refused");
  t.match(plain, { status: 502, kind: "upstream", retry: false, ownCode: undefined });
  const told = { status: 429, kind: "rate_limit", retry: true, ownCode: "slow_down" } as const;
  t.match(new GatewayError("upstream_refused", told), told);
});
