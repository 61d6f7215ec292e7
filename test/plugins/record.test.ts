import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import t, { type Test } from "tap";
import { RecordFile } from "../../plugins/record/file.ts";
import type { RawExchange } from "../../plugins/record/messages.ts";
import { ExchangeRedactor } from "../../plugins/record/redactor.ts";
import Record from "../../plugins/record.ts";
import type { RecordedExchange } from "../../src/core/recorded.ts";
import { type DriveOptions, drive, type TestGateway } from "../../src/testing.ts";
import { MemoryLog } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { EVERY_CASE, sample } from "../support/sample.ts";
import { until } from "../support/until.ts";

/** All that a file of recordings holds, the first first. */
function rows(file: string): RecordedExchange[] {
  const database = new DatabaseSync(file, { readOnly: true });
  const all = database.prepare("select value from recorded order by time, id").all();
  database.close();
  return all.map(({ value }) => JSON.parse(gunzipSync(value as Uint8Array).toString()) as RecordedExchange);
}

async function recording(
  t: Test,
  options: object = {},
  more: DriveOptions = {},
): Promise<{ driven: TestGateway; file: string }> {
  const file = `${t.testdir()}/own/recorded.db`;
  const driven = await drive(Record, { options: { sample: 1, file, ...options }, ...more });
  t.teardown(() => driven.close());
  return { driven, file };
}

const recorded = ({ plugin }: TestGateway, id = "") => plugin.recorded?.(id);

/** What is kept of an exchange, as soon as it is: behind a failed attempt that takes until its answer has been read. */
async function found(driven: TestGateway, id = ""): Promise<RecordedExchange> {
  let kept: RecordedExchange | undefined;
  await until(async () => {
    kept = await recorded(driven, id);
    return kept !== undefined;
  }, `the record of ${id}`);
  return kept as RecordedExchange;
}

t.test("request and response are recorded as the client and as the provider saw them, in every protocol", async (t) => {
  const { driven, file } = await recording(t);
  const forms = driven.protocols.flatMap((protocol) =>
    ["any", "gemini", "openai-chat"].flatMap((model) => [false, true].map((stream) => ({ protocol, model, stream }))),
  );
  const some = sample(forms, 5);
  for (const { protocol, model, stream } of some) {
    const about = `${protocol} → ${model}, ${stream ? "streamed" : "whole"}`;
    const answer = await driven.ask({ protocol, model, stream, text: about, chunkBytes: 11 }, "Good morning.");
    const kept = await found(driven, answer.headers["x-request-id"]);
    t.match(kept, { status: 200, outcome: "completed", attempts: { length: 1 } }, about);
    t.match(kept.request, { first: /^POST \/v1/, encoding: "text", cut: false }, about);
    t.match(kept.request.body, about);
    t.equal(kept.answer?.body, answer.body.toString(), "byte for byte");
    const [attempt] = kept.attempts;
    t.equal(attempt?.protocol, model === "any" ? protocol : model, about);
    t.equal(attempt?.request.body, answer.sent[0]?.body.toString(), "the request sent");
    t.match(attempt, { target: `${model}:vendors-model`, status: 200, answer: { first: "200" } });
    if (model === "any") t.equal(attempt?.answer?.body, kept.answer?.body, about);
    else if (protocol !== model) t.not(attempt?.answer?.body, kept.answer?.body, about);
  }
  await driven.close();
  t.equal(rows(file).length, EVERY_CASE ? 24 : some.length);
  t.equal(statSync(file).mode & 0o777, 0o600, "for its owner only");
});

/** Returns the texts of a body in a row, as a client joins the pieces of a stream. */
const joinedTexts = (body = ""): string =>
  [...body.matchAll(/"(?:text|content|delta|thinking|reasoning_content)":\s*"((?:[^"\\]|\\.)*)"/g)]
    .map(([, piece]) => piece)
    .join("");

const SECRETS = {
  vendor: "sk-proj-abcdefghijklmnop0123456789",
  plain: "not-shaped-like-a-key",
  token: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
  mail: "jane.doe@example.org",
};

gathered(
  t,
  "no secret is in the file: keys of callers, credentials, what looks like a key, what the operator names",
  async (t) => {
    const env = { PLAIN: SECRETS.plain };
    const providers = {
      any: {
        url: "http://any.test",
        credential: "$PLAIN",
        speaks: ["openai-chat", "gemini", "openai-responses", "anthropic-messages"],
      },
    };
    const models = { any: { targets: ["any:vendors-model"] } };
    const options = { errors: true, patterns: ["[\\w.]+@[\\w.]+"] };
    const { driven, file } = await recording(t, options, { env, gateway: { providers, models } });
    const all = Object.values(SECRETS).join(" and ");
    const key = "test-key-0123456789abcdef";
    const forms = driven.protocols.flatMap((protocol) =>
      [false, true].flatMap((stream) => [undefined, 1, 40].map((cut) => ({ protocol, stream, cut }))),
    );
    for (const { protocol, stream, cut } of sample(forms, 5)) {
      const asked = {
        protocol,
        stream,
        text: `${all} ${key}`,
        ...(cut && { cut }),
        headers: { "x-note": SECRETS.vendor },
      };
      // The model repeats them in pieces of three characters, each in a frame of its own.
      const answer = await driven.ask(asked, {
        text: `${all} ${key}`,
        reasoning: all,
        headers: { "x-request-id": SECRETS.token },
      });
      t.match(answer.text, SECRETS.vendor, "the client gets the original text");
      await driven.ask(
        { ...asked, path: `/v1/chat/completions?key=${key}` },
        { status: 400, body: { error: { message: all } } },
      );
      await driven.ask(asked, { text: all, breakAfter: 700 });
      await driven.ask({ ...asked, disconnectAfterBytes: 600 }, { text: all });
    }
    await driven.close();
    const kept = rows(file);
    t.ok(kept.length > (EVERY_CASE ? 80 : 16), `${kept.length} exchanges`);
    const text = JSON.stringify(kept);
    t.match(text, /\*\*\* and/);
    for (const [name, secret] of Object.entries({ ...SECRETS, key })) {
      t.notOk(text.includes(secret), name);
      t.notOk(readFileSync(file).includes(secret), name);
    }
    // Nor in pieces: each stream's texts put together.
    for (const { request, answer, attempts } of kept)
      for (const body of [request, answer, ...attempts.flatMap((each) => [each.request, each.answer])]) {
        const joined = joinedTexts(body?.body);
        for (const [name, secret] of Object.entries({ ...SECRETS, key }))
          t.notOk(joined.includes(secret), `${name} in pieces`);
      }
  },
);

t.test(
  "what a client shows to other servers is not recorded: its tools' tokens and headers, other gateways' keys",
  async (t) => {
    const { driven } = await recording(t);
    const shown = {
      "x-litellm-api-key": "opaque-gateway",
      "cf-access-client-secret": "opaque-proxy",
      "x-auth-token": "opaque-auth",
      "x-bf-vk": "opaque-virtual",
      "x-portkey-config": '{"api_key":"opaque-config"}',
      "x-portkey-vertex-service-account-json": '{"private_key":"opaque-account"}',
      "cf-access-jwt-assertion": "opaque-assertion",
      authentication: "opaque-authentication",
      "idempotency-key": "kept-try",
      "x-kept": "kept-header",
    };
    const tool = {
      type: "mcp",
      authorization: 'opaque-"token',
      headers: { "X-Any": "opaque-{any}", Authorization: "Bearer opaque" },
    };
    const body = {
      tools: [tool],
      mcp_servers: [{ name: "kept-name", authorization_token: "opaque-access" }],
      client_secret: "opaque-own",
      aws_session_token: "opaque-session",
      azure_ad_token: "opaque-directory",
      langfuse_secret_key: "opaque-tracer",
      virtual_key: "opaque-virtual",
      passphrase: "opaque-phrase",
      vertex_credentials: '{"private_key":"opaque-account"}',
      "tensorzero::credentials": { any: "opaque-credential" },
      token: "kept-token",
    };
    const text = 'kept-text "api_key": "and the like"';
    const answer = await driven.ask({ protocol: "openai-responses", headers: shown, text, body });
    const kept = JSON.stringify(await found(driven, answer.headers["x-request-id"]));
    t.match(answer.sent[0]?.body.toString(), /opaque-access/, "the provider gets it");
    t.notMatch(kept, /opaque/);
    for (const word of ["try", "header", "name", "text", "token"]) t.match(kept, `kept-${word}`);
    t.match(kept, "and the like");
  },
);

t.test("each pattern has groups and backreferences of its own, also where a stream splits the text", async (t) => {
  const patterns = ["(first)", "(\\w)(\\w)\\2\\1", "(?<same>#)\\k<same>{3}", "(?<same>!)\\k<same>"];
  const { driven } = await recording(t, { patterns, body_kilobytes: 4096 });
  // So long that the beginning is not held back until the end.
  const text = `Numbers 1221 and 1234, signs #### and !! then ${"xyz".repeat(1000)}`;
  const clean = "Numbers *** and 1234, signs *** and *** then xyz";
  for (const protocol of ["openai-chat", "anthropic-messages"]) {
    const { headers } = await driven.ask({ protocol, stream: true, text }, { text });
    const { answer, attempts } = await found(driven, headers["x-request-id"]);
    for (const body of [answer?.body, attempts[0]?.answer?.body])
      t.equal(joinedTexts(body).slice(0, clean.length), clean, protocol);
  }
  await driven.close();
});

t.test("interrupted streams are recorded as far as they came", async (t) => {
  const { driven } = await recording(t);
  for (const protocol of driven.protocols) {
    const broken = await driven.ask({ protocol, stream: true, text: "x".repeat(300) }, { breakAfter: 900 });
    const kept = await found(driven, broken.headers["x-request-id"]);
    t.match(kept, { outcome: "upstream_error", error: { code: "upstream_truncated" } }, protocol);
    t.ok((kept.attempts[0]?.answer?.bytes ?? 0) > 300, protocol);
    t.ok(broken.body.toString().startsWith(kept.answer?.body ?? "none"), "the client got that, and the error after it");
    const left = await driven.ask({ protocol, stream: true, text: "x".repeat(300), disconnectAfterBytes: 300 });
    t.match(
      await found(driven, left.headers["x-request-id"]),
      { outcome: "aborted", answer: { first: "200" } },
      protocol,
    );
  }
  await driven.close();
});

t.test("each attempt is recorded, and a plugin's own response or refusal", async (t) => {
  const { driven } = await recording(t);
  const tried = await driven.ask({ protocol: "openai-chat" }, [
    { status: 503, body: { error: { message: "busy" } } },
    "Now.",
  ]);
  const kept = await found(driven, tried.headers["x-request-id"]);
  t.match(kept.attempts, [
    { status: 503, answer: { first: "503", body: '{"error":{"message":"busy"}}', bytes: 28, cut: false } },
    { status: 200, answer: { first: "200", body: /Now\./ } },
  ]);
  t.match(kept.attempts[0]?.answer?.headers, [["content-type", "application/json"]]);
  const refused = await driven.ask({ protocol: "openai-chat", key: null });
  t.match(await found(driven, refused.headers["x-request-id"]), {
    status: 401,
    error: { code: "missing_api_key" },
    attempts: { length: 0 },
  });
  t.equal(await recorded(driven, "nobody's"), undefined);
  let kept401 = 1;
  for (let i = 0; i < 30; i++) {
    const { headers } = await driven.ask({ protocol: "openai-chat", key: null });
    if (await recorded(driven, headers["x-request-id"])) kept401++;
  }
  t.equal(kept401, 10, "requests without a key cannot displace recordings of others");
  await driven.close();
});

t.test(
  "a failed attempt's response is recorded in the provider's words, without secrets and with the same size limit",
  async (t) => {
    const { driven, file } = await recording(t, { body_kilobytes: 1, patterns: ["[\\w.]+@[\\w.]+"] });
    const key = "test-key-0123456789abcdef";
    const told = `${SECRETS.vendor}, ${SECRETS.mail} and ${key}`;
    const answer = await driven.ask({ protocol: "openai-chat", text: "Hello" }, [
      { status: 529, body: `${told} ${"x".repeat(50_000)}` },
      { status: 200, body: "<html>no model</html>", headers: { "content-type": "text/html" } },
    ]);
    t.match(answer, { status: 502 });
    const kept = await found(driven, answer.headers["x-request-id"]);
    t.match(kept.attempts, [
      { status: 529, answer: { first: "529", body: /^\*{3}, \*{3} and \*{3} xxx/, cut: true } },
      { status: 502, error: "upstream_invalid", answer: { first: "200", body: "<html>no model</html>", cut: false } },
    ]);
    t.equal(kept.attempts[0]?.answer?.body.length, 1024);
    t.ok((kept.attempts[0]?.answer?.bytes ?? 0) > 1024);
    const streamed = await driven.ask({ protocol: "openai-chat", stream: true, text: "Hello" }, [
      {
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: `data: {"error":{"message":"overloaded","type":"server_error"}}\n\n`,
      },
      "Now.",
    ]);
    t.match((await found(driven, streamed.headers["x-request-id"])).attempts, [
      { error: "upstream_refused", answer: { first: "200", body: /^data: \{"error":.*\}\n\n$/ } },
      { status: 200, answer: { first: "200" } },
    ]);
    await driven.close();
    for (const secret of [SECRETS.vendor, SECRETS.mail, key]) t.notOk(JSON.stringify(rows(file)).includes(secret));
  },
);

t.test("masks are shorter than their secrets, and no beginning of a secret is recorded", (t) => {
  const secret = "a-credential-of-the-provider-0123456789-abcdefghijklmnopqrstuvwxyz";
  const cleaner = new ExchangeRedactor({ body: 1024, patterns: [] }, [secret]);
  const window = Buffer.from(secret.repeat(5000)).subarray(0, 1024 + 8192 + 1);
  const request = { first: "POST /", headers: [], body: window, bytes: secret.length * 5000 };
  const { body } = cleaner.redact({ request, attempts: [] } as unknown as RawExchange).request;
  t.match(body, /^\*+$/);
  t.end();
});

t.test("a file of an older gateway, without the responses of failed attempts, can be read", async (t) => {
  const { driven, file } = await recording(t);
  const asked = await driven.ask({ protocol: "openai-chat" }, [{ status: 503, body: {} }, "Now."]);
  const kept = await found(driven, asked.headers["x-request-id"]);
  const [{ answer: _, ...first }, last] = kept.attempts as [
    RecordedExchange["attempts"][number],
    RecordedExchange["attempts"][number],
  ];
  const older = { ...kept, id: "older", attempts: [first, last] };
  const value = gzipSync(JSON.stringify(older));
  const database = new DatabaseSync(file);
  database.prepare("insert into recorded values (?, ?, ?, ?)").run("older", kept.time, value.length, value);
  database.close();
  t.same(await found(driven, "older"), older);
});

t.test("a sample is recorded, and errors in any case where that is configured", async (t) => {
  const { driven, file } = await recording(t, { sample: 0.3 });
  for (let i = 0; i < 100; i++) await driven.ask({ protocol: "openai-chat" });
  await driven.close();
  const { length } = rows(file);
  t.ok(length > 5 && length < 65, `${length} of a hundred`);
  const errors = await recording(t, { sample: 0, errors: true });
  await errors.driven.ask({ protocol: "openai-chat", stream: true });
  await errors.driven.ask({ protocol: "openai-chat", stream: true, disconnectAfterBytes: 10 });
  await errors.driven.ask({ protocol: "openai-chat", stream: true }, { breakAfter: 500 });
  await errors.driven.ask({ protocol: "openai-chat", model: "nobody's" });
  await errors.driven.ask({ protocol: "openai-chat", headers: { "gateway-explain": "dry-run" } });
  await errors.driven.close();
  t.same(
    rows(errors.file).map(({ outcome }) => outcome),
    ["upstream_error", "rejected"],
  );
});

t.test(
  "a body above its limit is truncated, also within a secret, and what exceeds the total is dropped and counted",
  async (t) => {
    const { driven } = await recording(t, { body_kilobytes: 1 });
    const edge = `${"y".repeat(940)}${SECRETS.vendor}${"x".repeat(20_000)}`;
    const answer = await driven.ask({ protocol: "openai-chat", text: edge });
    const kept = await found(driven, answer.headers["x-request-id"]);
    for (const message of [kept.request, kept.answer, kept.attempts[0]?.request, kept.attempts[0]?.answer]) {
      t.match(message, { cut: true });
      t.ok((message?.bytes ?? 0) > 20_000 && (message?.body.length ?? 0) <= 1024);
      t.notMatch(message?.body, /sk-proj/);
    }
    await driven.close();
    const small = await recording(t, { queue_megabytes: 1, body_kilobytes: 1024 });
    const large = "z".repeat(700_000);
    for (let i = 0; i < 3; i++) t.equal((await small.driven.ask({ protocol: "openai-chat", text: large })).status, 200);
    await small.driven.close();
    t.match(
      small.driven.log.filter(({ level }) => level === "warn").map(({ fields }) => fields),
      [{ dropped: 1 }, { dropped: 2 }],
    );
  },
);

t.test("a file that cannot be written is a line in the log, and then a line with a count", async (t) => {
  const { driven, file } = await recording(t);
  const other = new DatabaseSync(file);
  other.exec("drop table recorded");
  other.close();
  for (let i = 0; i < 5; i++) t.equal((await driven.ask({ protocol: "openai-chat" })).status, 200);
  await driven.close();
  const message = "exchanges were not recorded: the file cannot be written";
  t.match(
    driven.log.filter(({ level }) => level === "warn"),
    [
      { message, fields: { dropped: 1, cause: /recorded/ } },
      { message, fields: { dropped: 4, cause: /recorded/ } },
    ],
  );
  t.equal(driven.log.filter(({ level }) => level === "warn").length, 2);
});

t.test("the oldest recordings are deleted above the size limit, and expired ones too", async (t) => {
  const { driven, file } = await recording(t, { megabytes: 1, body_kilobytes: 512 });
  const noise = () => Array.from({ length: 12_000 }, () => Math.random().toString(36)).join("");
  for (let i = 0; i < 12; i++) {
    const asked = await driven.ask({ protocol: "openai-chat", text: noise() }, "short");
    await found(driven, asked.headers["x-request-id"]);
  }
  await driven.close();
  const left = rows(file);
  t.ok(left.length >= 1 && left.length < 12, `${left.length} of twelve`);
  t.ok(statSync(file).size < 1.5 * 1_048_576, `${statSync(file).size} bytes`);
  const brief = await recording(t, { hours: 0.05 / 3600 });
  const { headers } = await brief.driven.ask({ protocol: "openai-chat" });
  await sleep(80);
  t.equal(await recorded(brief.driven, headers["x-request-id"]), undefined);
  await brief.driven.close();
});

t.test("invalid options are refused before anything starts", async (t) => {
  const folder = t.testdir();
  writeFileSync(`${folder}/text`, "no database");
  const file = `${folder}/own.db`;
  const other = new DatabaseSync(`${folder}/other.db`);
  other.exec("create table mine (a text)");
  other.close();
  for (const [options, message] of [
    [{}, /nothing is kept: set sample/],
    [{ sample: 2 }, /sample/],
    [{ sample: 1, hours: 0 }, /hours/],
    [{ sample: 1, megabytes: 1, body_kilobytes: 2048 }, /body_kilobytes is more than megabytes/],
    [{ sample: 1, patterns: ["("] }, /no regular expression: unterminated group/],
    [{ sample: 1, patterns: ["x*"] }, /matches empty text/],
    [{ sample: 1, file: folder }, /is a folder/],
    [{ sample: 1, file: `${folder}/text/recorded.db` }, /is no folder/],
    [{ sample: 1, file: `${folder}/other.db` }, /no file of recordings/],
    [{ sample: 1, file: `${folder}/text` }, /not a database/],
  ] as const)
    await t.rejects(drive(Record, { options: { file, ...options } }), message, JSON.stringify(options));
  const once = ["sse", "auth", "models", "rewrite", "record"];
  await t.rejects(drive(Record, { options: { file, sample: 1 }, chain: once }), /listed once .* first and last/);
  await t.rejects(drive(Record, { options: { file, sample: 1 }, chain: ["record", ...once, "record"] }), /three times/);
});

t.test("a file in a folder that cannot be made ends the start", { skip: !existsSync("/proc/self") }, async (t) => {
  const options = { file: "/proc/none/below/recorded.db", sample: 1 };
  await t.rejects(drive(Record, { options }), /ENOENT: no such file or directory, mkdir '\/proc\/none'/);
});

t.test("check recognizes another program's file, which it does not open as a database", async (t) => {
  const folder = t.testdir({ text: "This is a text.\n", empty: "" });
  const other = new DatabaseSync(`${folder}/other.db`);
  other.exec("create table mine (id integer)");
  other.close();
  new RecordFile({ file: `${folder}/own.db`, milliseconds: 1000, bytes: 1e6 }).close();
  const dryStart = (name: string) =>
    new Record(new MemoryLog(), Record.options.parse({ sample: 1, file: `${folder}/${name}` })).start({ dry: true });
  for (const name of ["text", "other.db"]) await t.rejects(dryStart(name), /is no file of recordings/, name);
  for (const name of ["own.db", "empty", "none.db"]) await t.resolves(dryStart(name), name);
});

const noLocks = process.platform === "linux" ? false : "/proc/locks is Linux's";

t.test("a second connection to the file leaves the first one's lock", { skip: noLocks }, async (t) => {
  const options = { file: `${t.testdir()}/recorded.db`, milliseconds: 1000, bytes: 1e6 };
  const former = new RecordFile(options);
  former.prune();
  t.teardown(() => former.close());
  const { ino } = statSync(options.file);
  const locks = () =>
    readFileSync("/proc/locks", "latin1")
      .split("\n")
      .filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
  t.equal(locks().length, 1);
  const next = new RecordFile(options);
  t.teardown(() => next.close());
  t.equal(locks().length, 1);
});
