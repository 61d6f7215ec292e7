import { request } from "node:http";
import t, { type Test } from "tap";
import { chunk } from "./support/chunk.ts";
import { asking, KEY, type Running, startGateway } from "./support/gateway.ts";
import { journalAt } from "./support/journal-at.ts";
import { until } from "./support/until.ts";
import { CHUNKED, httpUpstream, type RawRequest, rawUpstream } from "./support/upstream.ts";

/** Logs each `done`, then fails if the request asks for it. */
const WITNESS = `
import { injectable } from "tsyringe";
import { type DoneExchange, Log } from "model-gateway";
@injectable()
export default class Witness {
  constructor(private readonly log: Log) {}
  async done(exchange: DoneExchange) {
    this.log.info({ id: exchange.id, outcome: exchange.outcome, status: exchange.status }, "witness");
    if (exchange.query.has("bad")) throw new Error("no paper left");
  }
}`;
/** A second plugin of the same kind, which stands behind the one that fails. */
const BEHIND = WITNESS.replaceAll("Witness", "Behind")
  .replace('"witness"', '"behind"')
  .replace(/if .*\n/, "");

const EVENTS = ['{"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}', "[DONE]"].map(
  (data) => `data: ${data}\n\n`,
);
const SSE = CHUNKED.replace("\r\n", "\r\ncontent-type: text/event-stream\r\n");

type Provider = (socket: Parameters<Parameters<typeof rawUpstream>[0]>[0], request: RawRequest) => unknown;

/** A gateway whose one provider does what `provider` says, with witnesses of every end. */
async function watched(t: Test, provider: Provider): Promise<Running> {
  const upstream = await rawUpstream(provider);
  t.teardown(() => upstream.close());
  return startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { any: { targets: [up:vendors-any] } }
plugins: { witness: { from: ./witness.ts }, behind: { from: ./behind.ts } }
chains: { llm: [sse, auth, witness, behind, models, rewrite, usage], read: [auth, witness, behind] }
`,
    { "witness.ts": WITNESS, "behind.ts": BEHIND },
  );
}

interface Asked {
  path?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Leaves as soon as the answer has begun. */
  leaves?: boolean;
}

/** Asks and reads to the end, however that is. */
function ask(running: Running, { path, headers, body, leaves }: Asked): Promise<void> {
  return new Promise((resolve) => {
    const outgoing = request(
      {
        port: running.port,
        host: "127.0.0.1",
        method: "POST",
        path: path ?? "/v1/chat/completions",
        headers: headers ?? asking(),
      },
      (response) =>
        response
          .on("data", () => leaves && outgoing.destroy())
          .on("error", () => {})
          .on("close", resolve),
    );
    outgoing.on("error", () => resolve()).end(body ?? '{"model":"any","stream":true}');
  });
}

const lines = ({ log }: Running, message: string) => log.lines.filter((line) => line.message === message);

const success: Provider = (socket) => socket.write(`${SSE}${EVENTS.map(chunk).join("")}0\r\n\r\n`);
const never: Provider = () => {
  throw new Error("nobody should have been asked");
};
const ENDS: [name: string, provider: Provider, asked: Asked, line: object][] = [
  ["an answer", success, {}, { status: 200, outcome: "completed", attempts: 1, target: "up:vendors-any" }],
  [
    "a refusal in access",
    never,
    { headers: { "content-type": "application/json" } },
    { status: 401, outcome: "rejected", attempts: 0, error: { code: "missing_api_key" } },
  ],
  [
    "a body that is no JSON",
    never,
    { body: "{" },
    { status: 400, outcome: "rejected", attempts: 0, error: { code: "invalid_json" } },
  ],
  [
    "a model that nobody knows",
    never,
    { body: '{"model":"nobody"}' },
    { status: 404, outcome: "rejected", model: "nobody", error: { code: "model_not_found" } },
  ],
  [
    "a provider that refuses",
    (socket) => socket.write("HTTP/1.1 429 Slow down\r\nx-request-id: theirs\r\ncontent-length: 2\r\n\r\n{}"),
    {},
    { status: 429, attempts: 1, upstream_id: "theirs" },
  ],
  [
    "a provider that breaks off before it answers",
    (socket) => socket.destroy(),
    {},
    { status: 502, outcome: "upstream_error", error: { code: "upstream_failed" } },
  ],
  [
    "a provider that breaks off in a stream",
    (socket) => socket.end(SSE + chunk(EVENTS[0] as string)),
    {},
    { status: 200, outcome: "upstream_error", error: { code: "upstream_truncated" } },
  ],
  [
    "a client that leaves in a stream",
    (socket) => socket.write(SSE + chunk(EVENTS[0] as string)),
    { leaves: true },
    { status: 200, outcome: "aborted", error: { code: "client_gone" } },
  ],
];

for (const [name, provider, asked, line] of ENDS) {
  t.test(`${name}: done runs once in each plugin, and one line is logged`, async (t) => {
    const running = await watched(t, provider);
    await ask(running, asked);
    await until(() => lines(running, "exchange").length > 0, "the log line");
    await ask(running, { path: "/v1/chat/completions?second=1", headers: { "content-type": "application/json" } });
    await until(() => lines(running, "exchange").length > 1, "the next request's line");
    const [first, second, ...more] = lines(running, "exchange");
    t.same(more, []);
    t.match(first?.fields, { ...line, method: "POST", path: "/v1/chat/completions", ms: Number });
    for (const plugin of ["witness", "behind"])
      t.same(
        lines(running, plugin).map(({ fields }) => fields["id"]),
        [first?.fields["id"], second?.fields["id"]],
        `${plugin} saw each once`,
      );
    const { outcome, status } = lines(running, "witness")[0]?.fields ?? {};
    t.same({ outcome, status }, { outcome: first?.fields["outcome"], status: first?.fields["status"] });
  });
}

t.test("a path that a plugin answers ends in the same way", async (t) => {
  const running = await watched(t, never);
  for (const key of [KEY, "no-key-of-this-gateway"]) {
    const response = await fetch(`${running.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    await response.text();
  }
  await until(() => lines(running, "exchange").length === 2, "the log lines");
  t.match(
    lines(running, "exchange").map(({ fields }) => fields),
    [
      { status: 200, outcome: "completed", path: "/v1/models", key: String },
      { status: 401, outcome: "rejected", path: "/v1/models" },
    ],
  );
  for (const plugin of ["witness", "behind"]) t.equal(lines(running, plugin).length, 2);
});

t.test(
  "a done that throws is logged with its plugin, and loses neither the other plugins nor the response",
  async (t) => {
    const running = await watched(t, success);
    const response = await fetch(`${running.url}/v1/chat/completions?bad=1`, {
      method: "POST",
      headers: asking(),
      body: '{"model":"any","stream":true}',
    });
    t.equal(await response.text(), EVENTS.join(""));
    await until(() => lines(running, "exchange").length === 1, "the log line");
    t.equal(lines(running, "witness").length, 1);
    t.equal(lines(running, "behind").length, 1);
    t.match(lines(running, "a plugin failed to record"), [
      { level: "error", fields: { origin: "witness.done", cause: /no paper left/ } },
    ]);
    t.match(lines(running, "exchange")[0]?.fields, { status: 200, outcome: "completed" });
  },
);

t.test("the gateway's own failures are warnings, the client's errors are not; no secret is in a line", async (t) => {
  const running = await watched(t, (socket) => socket.destroy());
  await ask(running, {});
  await ask(running, { body: "{" });
  await until(() => lines(running, "exchange").length === 2, "the log lines");
  t.same(
    lines(running, "exchange").map(({ level }) => level),
    ["warn", "info"],
  );
  t.notMatch(JSON.stringify(running.log.lines), KEY);
});

t.test(
  "a client that disconnects while its provider works gets no response, and its exchange ends at once",
  async (t) => {
    let asked = 0;
    const running = await watched(t, () => asked++);
    const outgoing = request({
      port: running.port,
      host: "127.0.0.1",
      method: "POST",
      path: "/v1/chat/completions",
      headers: asking(),
    });
    outgoing.on("error", () => {}).end('{"model":"any"}');
    await until(() => asked === 1, "the provider to be asked");
    outgoing.destroy();
    await until(() => lines(running, "exchange").length === 1, "the log line");
    t.match(lines(running, "exchange")[0]?.fields, { status: 499, outcome: "aborted", bytes: 0 });
    t.equal(lines(running, "witness").length, 1);
  },
);

const HANGING = `
import { injectable } from "tsyringe";
import { type RouteExchange } from "model-gateway";
@injectable()
export default class Hanging {
  route(exchange: RouteExchange) { if (exchange.query.has("hang")) return new Promise<void>(() => {}); }
}`;

t.test("a phase that never settles ends its own request after the deadline of its plugin", async (t) => {
  const upstream = await rawUpstream(success);
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { any: { targets: [up:vendors-any] } }
plugins: { hanging: { from: ./hanging.ts, deadline: 20ms } }
chains: { llm: [sse, auth, hanging, models, rewrite, usage], read: [auth] }
`,
    { "hanging.ts": HANGING },
  );
  const ask = async (query: string) => {
    const asked = { method: "POST", headers: asking(), body: '{"model":"any","stream":true}' };
    const response = await fetch(`${running.url}/v1/chat/completions${query}`, asked);
    return { status: response.status, text: await response.text() };
  };
  const [hung, fine] = await Promise.all([ask("?hang=1"), ask("")]);
  t.equal(hung.status, 504);
  t.match(JSON.parse(hung.text), { error: { code: "plugin_timeout", message: /hanging\.route did not end/ } });
  t.same(fine, { status: 200, text: EVENTS.join("") });
  const error = { code: "plugin_timeout", origin: "hanging.route" };
  t.ok(
    lines(running, "exchange").some(
      ({ fields }) => (fields["error"] as typeof error | undefined)?.origin === error.origin,
    ),
  );
});

const NOTICING = `
import { injectable } from "tsyringe";
import { type ResponseExchange } from "model-gateway";
@injectable()
export default class Noticing {
  response({ id }: ResponseExchange) { process.emit("answered", id); }
}`;

t.test(
  "an exchange that is broken off once its answer has come gets an error, and nothing of the answer",
  async (t) => {
    const upstream = await httpUpstream(({ body }, reply) => {
      const streams = body.includes("stream");
      reply.setHeader("content-type", streams ? "text/event-stream" : "application/json");
      reply.end(streams ? EVENTS.join("") : '{"object":"chat.completion","choices":[]}');
    });
    t.teardown(() => upstream.close());
    const running = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { any: { targets: [up:vendors-any] } }
plugins: { noticing: { from: ./noticing.ts } }
chains: { llm: [noticing, sse, auth, models, rewrite, usage], read: [auth] }
`,
      { "noticing.ts": NOTICING },
    );
    const cancel = (id: string) => t.ok(running.gateway.cancel(id), "it runs");
    process.on("answered" as "warning", cancel as never);
    t.teardown(() => process.off("answered", cancel));
    for (const body of ['{"model":"any"}', '{"model":"any","stream":true}']) {
      const response = await fetch(`${running.url}/v1/chat/completions`, { method: "POST", headers: asking(), body });
      t.match(await response.json(), { error: { message: /cancelled/ } }, body);
      t.not(response.status, 200);
    }
  },
);

t.test("the journal has the row of a refused request before the last byte of the refusal is sent", async (t) => {
  const upstream = await rawUpstream(success);
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat] } }
models: { any: { targets: [up:vendors-any] } }
limits: { models: { any: { rpm: 1 } } }
`,
  );
  const left = journalAt(t, running.folder, "http.server.response.finish", running.port);
  const statuses: number[] = [];
  const post = async (path: string, model: string) => {
    const body = JSON.stringify({ model, stream: true });
    const response = await fetch(running.url + path, { method: "POST", headers: asking(), body });
    await response.text();
    statuses.push(response.status);
  };
  for (const model of ["any", "any", "nowhere"]) await post("/v1/chat/completions", model);
  await post("/vendors/up/../../etc", "any");
  t.same(statuses, [200, 429, 404, 404]);
  t.same(
    left.slice(0, 3),
    [1, 2, 3].map((ended) => ({ ended, open: 0 })),
  );
});
