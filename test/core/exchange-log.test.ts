import t from "tap";
import { Attempt, type AttemptStart } from "../../src/core/attempt.ts";
import { GatewayError } from "../../src/core/errors.ts";
import { Exchange, type ExchangeStart } from "../../src/core/exchange.ts";
import { LOG_FIELDS, type LogField, logExchange } from "../../src/core/exchange-log.ts";
import type { Target } from "../../src/core/marketplace.ts";
import type { Protocol } from "../../src/core/protocol.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { HeaderList } from "../../src/wire/headers.ts";
import { MemoryLog } from "../support/gateway.ts";
import { credentialsOf } from "../support/provider.ts";

const SECRET = "a-credential-0123456789";
const chat = { name: "chat" } as Protocol;
const exchange = (lines: string[] = []): Exchange => {
  const headers = new HeaderList(lines);
  const arrival = { id: "one", arrivedAt: performance.now(), method: "POST", path: "/v1/x", protocol: chat, headers };
  return new Exchange(arrival as ExchangeStart);
};

const maskOptions = (text: string) => text.replaceAll("an option's secret", "$OPTION");

function logged(one: Exchange, failed?: GatewayError, logFields: readonly LogField[] = []) {
  const log = new MemoryLog();
  logExchange(one, { log, redactor: new Redactor([SECRET]), maskOptions, logFields }, failed);
  return log.lines;
}

t.test("an exchange is one line, of its last attempt and its outcome", async (t) => {
  const one = exchange();
  const provider = { name: "up", credentials: credentialsOf("one", "two") };
  const target = { provider, model: "x", modelId: "spare" } as unknown as Target;
  for (const name of ["chat", "other"]) one.attempts.push(new Attempt({ target, protocol: { name } } as AttemptStart));
  for (const attempt of one.attempts) attempt.dispatched = true;
  Object.assign(one.attempts[1] ?? {}, { credential: provider.credentials[1] });
  Object.assign(one, {
    model: { id: "m" },
    caller: { id: "k", name: "ci" },
    requestedModel: "m",
    status: 200,
    firstByte: 1.6,
    written: 9,
  });
  one.usage = { in: { total: 3 }, out: { total: 2 }, raw: undefined };
  one.dropped.push(...Array.from({ length: 30 }, (_, i) => `a.${i}`));
  const [line, ...more] = logged(one);
  t.same(more, []);
  const fields = {
    id: "one",
    key: "k",
    model: "spare",
    asked: "m",
    target: "up:x",
    credential: "two",
    via: "other",
    attempts: 2,
    tokens_in: 3,
  };
  t.match(line, { level: "info", message: "exchange", fields: { ...fields, first_byte_ms: 2, bytes: 9 } });
  t.equal((line?.fields["dropped"] as unknown[]).length, 20);
});

t.test("tokens are those of the ledger, marked if estimated", async (t) => {
  const one = exchange();
  one.usage = { in: { total: 3 }, out: {}, raw: undefined };
  const usage = { in: { total: 30 }, out: { total: 16 }, raw: undefined };
  one.charge = { tokens: 46, cost: 0, estimated: true, usage };
  t.match(logged(one), [{ fields: { tokens_in: 30, tokens_out: 16, estimated: true } }]);
  one.charge = { tokens: 46, cost: 0, estimated: false, usage };
  t.equal(logged(one)[0]?.fields["estimated"], undefined);
});

t.test("owner, group, tags, operation, cost and client are in a line only if they are configured", async (t) => {
  const one = exchange(["user-agent", "claude-cli/2.1 (external, cli)"]);
  const caller = { id: "k", name: "ci", owner: "Ann", group: "acme/research", tags: { app: "search" } };
  Object.assign(one, { caller, operation: { name: "generate" } });
  one.charge = { tokens: 46, cost: 5_000_000, priced: 1_250_000, estimated: false };
  const added = {
    owner: "Ann",
    group: "acme/research",
    tags: { app: "search" },
    operation: "generate",
    cost_usd: 0.00125,
    user_agent: "claude-cli/2.1 (external, cli)",
  };
  const without = logged(one)[0]?.fields ?? {};
  t.same(
    LOG_FIELDS.filter((name) => name in without),
    [],
  );
  t.match(logged(one, undefined, LOG_FIELDS)[0]?.fields, added);
  const some = logged(one, undefined, ["owner", "cost_usd"])[0]?.fields ?? {};
  t.same(
    LOG_FIELDS.filter((name) => name in some),
    ["owner", "cost_usd"],
  );
  one.charge = { tokens: 46, cost: 5_000_000, estimated: false };
  t.equal(logged(one, undefined, ["cost_usd"])[0]?.fields["cost_usd"], undefined, "of no known price");
  const nobody = logged(exchange(), undefined, ["owner", "group", "tags", "cost_usd", "user_agent"])[0]?.fields ?? {};
  t.notOk(Object.keys(JSON.parse(JSON.stringify(nobody))).some((name) => name in added));
});

t.test("added fields are short, and contain no secrets", async (t) => {
  const one = exchange(["user-agent", `curl ${SECRET} shown-key-0123456789 ${"word ".repeat(10_000)}`]);
  const tags = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`t${n}`, "a b ".repeat(1000)]));
  const caller = { id: "k", name: "ci", owner: `${SECRET} ${"x ".repeat(10_000)}`, group: "g".repeat(10_000), tags };
  Object.assign(one, { caller, credentials: ["shown-key-0123456789"], operation: { name: "generate" } });
  const line = JSON.stringify(logged(one, undefined, LOG_FIELDS));
  t.ok(line.length < 8000, String(line.length));
  t.match(line, /"user_agent":"curl \*\*\* \*\*\* word/);
  t.notMatch(line, /a-credential|shown-key/);
});

t.test("a failure of the gateway is a warning with its cause, a refusal is not", async (t) => {
  const one = exchange();
  one.error = new GatewayError("invalid_api_key");
  t.match(logged(one), [{ level: "info", fields: { error: { code: "invalid_api_key", cause: undefined } } }]);
  one.error = new GatewayError("plugin_failed", { cause: new Error("no paper left") });
  one.error.origin = "print.access";
  const error = { code: "plugin_failed", origin: "print.access", cause: /no paper left/ };
  t.match(logged(one), [{ level: "warn", fields: { error } }]);
});

t.test("a client's mistake has no stack", async (t) => {
  const one = exchange();
  one.error = new GatewayError("invalid_json", { cause: new SyntaxError("a comma is missing at byte 3") });
  t.match(logged(one), [{ fields: { error: { cause: /^a comma is missing at byte 3$/ } } }]);
});

t.test("a line is short, however long the cause of its error is", async (t) => {
  for (const cause of [new Error("a word ".repeat(100_000)), "a word ".repeat(100_000)]) {
    const one = exchange();
    one.error = new GatewayError("upstream_refused", { message: "\\ ".repeat(100_000), param: "x", cause });
    t.match(logged(one), [{ fields: { error: { cause: /a word .*(?:a|word) …$/ } } }]);
    t.ok(JSON.stringify(logged(one, one.error)).length < 20_000);
  }
});

t.test("a plugin that failed to record is added to it", async (t) => {
  const failed = new GatewayError("plugin_timeout", { message: "print.done did not end within 10 s." });
  failed.origin = "print.done";
  const [first, second] = logged(exchange(), failed);
  t.match(first, { level: "error", fields: { origin: "print.done", cause: /within 10 s/ } });
  t.match(second, { level: "info", message: "exchange" });
});

t.test("keys sent in place of a model, a path or a member are not logged", async (t) => {
  const key = `sk-ant-api03-${"x".repeat(40)}`;
  const one = exchange();
  Object.assign(one, {
    requestedModel: key,
    path: `/v1beta/models/${key}:generateContent`,
    credentials: ["my literal"],
  });
  one.dropped.push("provider", key, "my literal");
  one.droppedFromResponse.push("event", key);
  t.match(logged(one), [
    {
      fields: {
        model: "***",
        path: "/v1beta/models/***:generateContent",
        dropped: ["provider", "***", "***"],
        dropped_from_response: ["event", "***"],
      },
    },
  ]);
  t.notMatch(JSON.stringify(logged(one)), /sk-ant|literal/);
});

t.test("a response of a plugin names the plugin", async (t) => {
  const one = exchange();
  one.answerer = { name: "cache", index: 3, origin: "cache.answer", deadline: 0 };
  t.match(logged(one), [{ fields: { answered_by: "cache", target: undefined, attempts: 0 } }]);
});

t.test("the line names the caller's trace, or the one that a plugin has started", async (t) => {
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const one = exchange(["traceparent", `00-${trace}-00f067aa0ba902b7-01`]);
  t.equal(logged(one)[0]?.fields["trace_id"], trace);
  one.traceId = "another";
  t.equal(logged(one)[0]?.fields["trace_id"], "another");
  t.equal(logged(exchange())[0]?.fields["trace_id"], undefined);
});

t.test("secrets among a plugin's options are masked in what a plugin has thrown, and nowhere else", async (t) => {
  const one = exchange();
  const cause = new Error("refused: an option's secret");
  one.error = Object.assign(new GatewayError("plugin_failed", { cause }), { origin: "mod.request" });
  const [line] = logged(one);
  const { error } = line?.fields as { error: { cause: string } };
  t.match(error.cause, "refused: $OPTION");
  t.notMatch(error.cause, "secret");
});

t.test("a flood of wrong keys does not write a line for each, and other refusals still have theirs", async (t) => {
  const log = new MemoryLog();
  const refuse = (code: "invalid_api_key" | "key_not_allowed") => {
    const one = exchange();
    one.error = new GatewayError(code);
    logExchange(one, { log, redactor: new Redactor([]), maskOptions, logFields: [] }, undefined);
  };
  for (let n = 0; n < 1200; n++) refuse("invalid_api_key");
  t.equal(log.lines.length, 1000);
  refuse("key_not_allowed");
  t.match(log.lines.at(-1), { fields: { error: { code: "key_not_allowed" } } });
});
