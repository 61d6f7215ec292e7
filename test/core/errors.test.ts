import t from "tap";
import {
  type ErrorCode,
  GatewayError,
  REFUSALS,
  StoreUnavailableError,
  storeUnavailable,
  thrownMessage,
  thrownStack,
} from "../../src/core/errors.ts";

t.test("every entry of the table has an error status, a sentence, and whether to retry", async (t) => {
  for (const code of Object.keys(REFUSALS)) {
    const error = new GatewayError(code as ErrorCode);
    t.ok(error.status >= 400 && error.status < 600, code);
    t.match(error.message, /^[A-Z].*\.$/s, code);
    t.type(error.retry, "boolean");
  }
});

t.test("a specific message replaces the table's message and hint", async (t) => {
  t.equal(new GatewayError("missing_api_key", { message: "None." }).message, "None.");
  t.equal(
    new GatewayError("invalid_json", { hint: "Mend it." }).message,
    "The request body is not valid JSON. Mend it.",
  );
});

t.test("any other thrown value becomes a failure with it as the cause", async (t) => {
  const thrown = new TypeError("oops");
  const error = GatewayError.from(thrown);
  t.equal(error.code, "internal");
  t.equal(error.cause, thrown);
  t.notMatch(error.message, /oops/);
  t.equal(GatewayError.from(error), error);
});

t.test("a code for several faults takes status, kind and whether to retry from the fault", async (t) => {
  const plain = new GatewayError("upstream_refused");
  t.match(plain, { status: 502, kind: "upstream", retry: false, providerCode: undefined });
  const told = { status: 429, kind: "rate_limit", retry: true, providerCode: "slow_down" } as const;
  t.match(new GatewayError("upstream_refused", told), told);
});

t.test("a plugin's own code has its status and message, and the default kind of that status", async (t) => {
  const spent = { status: 402, message: "The team has spent its budget." };
  const error = new GatewayError("team_spent", spent);
  t.match(error, { code: "team_spent", kind: "billing", retry: false, ...spent });
  t.match(new GatewayError("busy", { status: 503, message: "Later." }), { kind: "overloaded", retry: true });
  t.match(new GatewayError("odd", { status: 418, kind: "conflict", message: "No." }), { kind: "conflict" });
  t.equal(new GatewayError("toString", spent).status, 402, "whatever it is called");
});

t.test("a client that needs an unavailable store gets the cause, that it is temporary, and no address", async (t) => {
  const away = new StoreUnavailableError("PostgreSQL at db.internal:5432 (store: ledger) is away");
  const error = storeUnavailable("keys", "Nobody knows.", away);
  t.match(error, {
    code: "store_unavailable",
    status: 503,
    kind: "overloaded",
    retry: true,
    retryAfter: 5,
    store: "keys",
  });
  t.match(error.message, /^Nobody knows\. This is temporary, and not the fault of the request or its key/);
  t.notMatch(error.message, /db\.internal/);
  t.equal(error.cause, away);
});

t.test(
  "an error with a value that cannot be sent is a failure of the plugin, with the reason as its cause",
  async (t) => {
    const message = "No.";
    for (const status of [0, 99, 299, 600, 1000, 400.5, Number.NaN, "402" as unknown as number]) {
      const error = new GatewayError("odd", { status, message });
      t.match(error, {
        code: "plugin_failed",
        status: 500,
        message: "A plugin of the gateway failed.",
        allow: undefined,
      });
      t.equal(error.cause, `The error "odd" has the status ${status}: it is one of 300 to 599.`);
    }
    for (const status of [300, 400, 599])
      t.match(new GatewayError("odd", { status, message }), { code: "odd", status });
    const injected = new GatewayError("method_not_allowed", { allow: ["GET\r\nx-evil: 1"] });
    t.match(injected, { code: "plugin_failed", status: 500, allow: undefined, cause: /names of methods/ });
    t.match(new GatewayError("odd", { status: 400, message, details: { n: 1n } }), {
      code: "plugin_failed",
      status: 500,
    });
    t.equal(new GatewayError(5 as unknown as string, { status: 400, message }).code, "plugin_failed");
  },
);

t.test("an invalid retry time is left out", async (t) => {
  for (const retryAfter of [Number.NaN, -5, Number.POSITIVE_INFINITY, "5" as unknown as number])
    t.match(new GatewayError("no_target", { retryAfter }), { code: "no_target", retryAfter: undefined });
  t.equal(new GatewayError("no_target", { retryAfter: 0 }).retryAfter, 0);
});

t.test("a long text of a client or a provider is cut, before the word that would be cut in two", async (t) => {
  const long = `No such part: "${"\\".repeat(800_000)}".`;
  const secret = `a-credential-${"x".repeat(40)}`;
  t.equal(new GatewayError("invalid_field", { message: long, hint: "Mend it." }).message, 'No such part: "… Mend it.');
  const { message, param, providerCode } = new GatewayError("invalid_field", {
    message: `${"word ".repeat(397)}${secret} and more`,
    hint: `See ${"x".repeat(600)}`,
    param: `messages.0.${"x".repeat(400_000)}`,
    providerCode: "漢".repeat(400),
  });
  t.equal(message, `${"word ".repeat(397)}… See …`);
  t.equal(param, "messages.0.…");
  t.equal(providerCode, `${"漢".repeat(199)}…`);
  const emoji = new GatewayError("invalid_field", { message: `x${"😀".repeat(5000)}` }).message;
  t.ok(emoji.isWellFormed() && emoji.length === 2000);
  t.equal(new GatewayError("invalid_field", { message: "x".repeat(2000) }).message.length, 2000);
});

t.test("whatever is thrown has a text, for messages and the log", async (t) => {
  const trap = (name: string) =>
    Object.defineProperty(new Error("x"), name, {
      get() {
        throw new Error("trap");
      },
    });
  const listed = Object.assign(new Error("x"), { stack: ["at a", "at b"] });
  const without = "a value of type object without a text";
  t.same([trap("message"), Object.create(null)].map(thrownMessage), [without, without]);
  t.same([trap("stack"), listed, Object.create(null)].map(thrownStack), [without, without, without]);
  t.same(["a", 5, undefined].map(thrownStack), ["a", "5", "undefined"]);
  t.match(thrownStack(new Error("odd")), /^Error: odd\n/);
});
