import t, { type Test } from "tap";
import { Attempt, type AttemptStart } from "../../src/core/attempt.ts";
import type { Exchange } from "../../src/core/exchange.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { recordErrorMessage } from "../../src/upstream/provider-message.ts";
import { asking, startGateway } from "../support/gateway.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const SECRET = "a-credential-0123456789";

function kept(body: string | Buffer): string | undefined {
  const attempt = new Attempt({} as AttemptStart);
  attempt.status = 500;
  recordErrorMessage(
    attempt,
    { credentials: ["key of a client"] } as unknown as Exchange,
    Buffer.from(body),
    new Redactor([]),
  );
  return attempt.refusal?.message;
}

t.test("the message is found in every vendor's form, and other text is reported unchanged", async (t) => {
  for (const [body, message] of [
    ['{"error":{"message":"No.","type":"x"}}', "No."],
    ['{"type":"error","error":{"type":"x","message":"No."},"request_id":"r"}', "No."],
    ['[{"error":{"code":400,"message":"No."}}]', "No."],
    ['{"error":"No."}', "No."],
    ['{"object":"error","message":"No."}', "No."],
    ['{"detail":"No."}', "No."],
    ['{"error":{"code":7}}', '{"error":{"code":7}}'],
    ["  upstream connect error\n", "upstream connect error"],
    ['{"error":{"message":"not for key of a client"}}', "not for ***"],
  ] as const)
    t.equal(kept(body), message, body);
});

t.test(
  "an empty body, a web page and binary data are reported as unreadable, and long texts are truncated",
  async (t) => {
    for (const body of ["", " \n", "<!doctype html><p>Bad gateway", Buffer.from([0x1f, 0x8b, 8, 0, 255]), "a\0b"])
      t.equal(kept(body), "The provider answered 500 without a readable error.", String(body));
    t.match(kept(JSON.stringify({ error: "😀".repeat(5000) })), /^.{499}…$|^.{498}…$/);
    t.equal(kept("[".repeat(5000))?.length, 500);
  },
);

/** A gateway whose provider fails like this, asked once: what the client got, the line of the log and the row. */
async function failing(t: Test, status: number, body: string, path = "/v1/chat/completions", keyed = true) {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(status, { "content-type": "application/json" }).end(body),
  );
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", ${keyed ? `credential: ${SECRET}, ` : ""}speaks: [openai-chat, gemini, anthropic-messages] } }
models: { m: { targets: [a:m] } }
retry: { attempts: 0 }
paths: { "/v1/chat/completions": {}, "/v1beta/models/*": {}, "/v1/tiers/*": { pass: a, open: true } }
`,
  );
  const answer = await fetch(running.url + path, { method: "POST", headers: asking(), body: '{"model":"m"}' });
  const text = await answer.text();
  await running.gateway.stores.ledger.flush();
  const [row] = await running.gateway.stores.ledger.recent(1);
  const line = running.log.lines.find(({ message }) => message === "exchange");
  const errors = running.log.lines.filter(({ level }) => level === "error").map(({ message }) => message);
  return { status: answer.status, text, row, line, errors, notice: answer.headers.get("gateway-notice") };
}

t.test(
  "a provider's message in an error that passes is in the log and the ledger, and changes nothing else",
  async (t) => {
    for (const path of ["/v1/chat/completions", "/v1/tiers/x"])
      for (const status of [400, 500]) {
        const body = JSON.stringify({ error: { message: `No such tier for ${SECRET}.` } });
        const found = await failing(t, status, body, path);
        const error = { code: "upstream_refused", message: "No such tier for ***." };
        t.match(found, { status, text: body.replace(SECRET, "***") }, `${path} ${status}`);
        t.same(found.line?.fields["error"], error);
        t.match(found.line, { level: "info", fields: { outcome: "upstream_error", status } });
        t.match(found.row, {
          outcome: "upstream_error",
          status,
          error,
          attempts: [{ status, error: undefined }],
        });
      }
  },
);

t.test("a successful answer has no such message", async (t) => {
  const { line, row } = await failing(t, 200, '{"error":null,"message":"hello"}');
  t.equal(line?.fields["error"], undefined);
  t.notOk(row?.error);
  t.notOk(row?.attempts[0]?.error);
});

t.test("a refusal of the gateway's own credential says that the client's key is not meant", async (t) => {
  const wrong = JSON.stringify({ error: { message: `Incorrect API key: ${SECRET}` } });
  for (const path of ["/v1/chat/completions", "/v1/tiers/x"]) {
    const { status, notice, row } = await failing(t, 401, wrong, path);
    t.equal(status, 401);
    t.match(notice, /^The provider rejected the gateway's own credential\. The client's key is not the cause/);
    t.notMatch(notice, SECRET);
    t.same(row?.notices, [notice]);
    t.equal(
      (await failing(t, 401, wrong, path, false)).notice,
      null,
      "without a credential, the client's may be meant",
    );
    t.equal((await failing(t, 400, wrong, path)).notice, null);
  }
  const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "API_KEY_INVALID" }];
  const invalid = { error: { code: 400, message: "API key not valid.", status: "INVALID_ARGUMENT", details } };
  const gemini = await failing(t, 400, JSON.stringify(invalid), "/v1beta/models/m:generateContent");
  t.match(gemini, { status: 400, notice: /gateway's own credential/ });
  const words =
    '{"code":"invalid-argument","error":"Incorrect API key provided. You can obtain one from https://console.x.test."}';
  const chat = await failing(t, 400, words);
  t.match(chat, { status: 400, notice: /gateway's own credential/ });
  const passed = await failing(t, 400, JSON.stringify(invalid), "/v1/tiers/x");
  t.match(passed, { status: 400, notice: /gateway's own credential/, row: { notices: [passed.notice] } });
  t.match(passed.errors, [/does not accept the credential: switched off everywhere/]);
});

t.test("of an error that is translated into another protocol the provider's own message is not kept", async (t) => {
  const upstream = await httpUpstream((_, reply) =>
    reply.writeHead(401, { "content-type": "application/json" }).end('{"error":{"message":"Incorrect API key"}}'),
  );
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { a: { url: "${upstream.origin.origin}/v1", credential: ${SECRET}, speaks: [openai-chat] } }
models: { m: { targets: [a:m] } }
plugins: { watch: { from: ./watch.ts } }
paths: { "/acme": { protocol: anthropic-messages, use: [auth, models, rewrite, watch] } }
`,
    {
      "watch.ts":
        "export default class Watch { done({ attempts: [one] }) { globalThis.kept = [one.status, one.refusal]; } }",
    },
  );
  const body = '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}';
  const answer = await fetch(`${running.url}/acme`, { method: "POST", headers: asking(), body });
  t.match(await answer.text(), /does not accept the gateway's credential/);
  t.equal(answer.headers.get("gateway-notice"), null);
  await until(() => "kept" in globalThis);
  t.same((globalThis as { kept?: unknown }).kept, [401, undefined]);
});
