import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import t, { type Test } from "tap";
import { generateKey } from "../../src/store/key-format.ts";
import { openStores } from "../../src/store/open.ts";
import { asking, type Running, startGateway } from "../support/gateway.ts";
import { cli, startProcess } from "../support/process.ts";
import { open, socketUpstream } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

/** Revocations of the measured test. */
const REVOCATIONS = Number(process.env["GATEWAY_TEST_REVOCATIONS"] ?? 2);

/** A provider whose streams begin and then say nothing more. */
async function hanging(t: Test): Promise<string> {
  const upstream = await httpUpstream((request, reply) => {
    if (!request.body.includes('"stream":true') && !request.url.includes("stream")) return;
    reply.writeHead(200, { "content-type": "text/event-stream" });
    reply.write(FIRST[Object.keys(FIRST).find((part) => request.url.includes(part)) ?? ""] ?? "");
  });
  t.teardown(() => upstream.close());
  return `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-responses, anthropic-messages, gemini] } }
models: { m: { targets: [up:m] } }
`;
}

const FIRST: Record<string, string> = {
  "chat/completions":
    'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}\n\n',
  responses:
    'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}\n\n',
  messages:
    'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n',
  streamGenerateContent:
    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},"index":0}]}\r\n\r\n',
};

const MESSAGES = '"messages":[{"role":"user","content":"hi"}]';
const STREAMS: [path: string, body: string, told: RegExp][] = [
  ["/v1/chat/completions", `{"model":"m","stream":true,${MESSAGES}}`, /data: \{"error":\{.*was revoked/],
  ["/v1/responses", '{"model":"m","stream":true,"input":"hi"}', /"type":"(?:error|response\.failed)".*was revoked/],
  [
    "/v1/messages",
    `{"model":"m","max_tokens":9,"stream":true,${MESSAGES}}`,
    /event: error\ndata: .*authentication_error/,
  ],
  [
    "/v1beta/models/m:streamGenerateContent?alt=sse",
    '{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}',
    /"error":.*UNAUTHENTICATED/,
  ],
];

const ask = (url: string, key: string, [path, body]: readonly [string, string, ...unknown[]]) =>
  fetch(url + path, { method: "POST", headers: { ...asking(), authorization: `Bearer ${key}` }, body });

const list = (url: string, key: string) => fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });

/** All that comes of an answer, which may be cut. */
async function said({ body }: Response): Promise<string> {
  let text = "";
  try {
    for await (const bytes of body ?? []) text += Buffer.from(bytes).toString();
  } catch {
    // Cut, as it has to be where it is not whole.
  }
  return text;
}

const logged = ({ log }: Running) =>
  log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);

t.test("streams of a key that is revoked end with their protocol's own error, and are in the ledger", async (t) => {
  const running = await startGateway(t, await hanging(t));
  const { keys, ledger } = running.gateway.stores;
  const gone = await keys.create({ name: "gone" });
  const stays = await keys.create({ name: "stays" });
  const answers = await Promise.all(STREAMS.map((stream) => ask(running.url, gone.key, stream)));
  const other = await ask(running.url, stays.key, STREAMS[0] as (typeof STREAMS)[number]);
  const waiting = ask(running.url, gone.key, ["/v1/chat/completions", `{"model":"m",${MESSAGES}}`]);
  await until(() => running.gateway.begun === STREAMS.length + 2, "requests");
  for (const answer of answers) t.equal(answer.status, 200);
  // Read from the start: fetch throws away what it has when the connection is cut.
  const texts = answers.map(said);
  await keys.revoke("gone");
  for (const [i, [path, , told]] of STREAMS.entries()) {
    t.match(await texts[i], told, path);
  }
  const refused = await waiting;
  t.equal(refused.status, 401, "a request without an answer yet gets this one");
  t.match(await refused.json(), { error: { code: "invalid_api_key", message: /was revoked/ } });
  await until(() => logged(running).length === 5, "the log");
  for (const line of logged(running)) t.match(line, { outcome: "rejected", error: { code: "revoked_api_key" } });
  const rows = await ledger.recent(10);
  t.same(
    rows.map(({ outcome }) => outcome),
    Array(5).fill("rejected"),
  );
  t.ok(
    rows.some(({ source, usage }) => source === "partial" && usage?.in.total === 3),
    "with the usage known by then",
  );
  t.match(
    rows.find(({ status }) => status === 401)?.attempts,
    [{ error: "revoked_api_key" }],
    "not as one whose client has left",
  );
  await other.body?.cancel();
});

t.test("a stream of a key that expires ends too", async (t) => {
  const running = await startGateway(t, await hanging(t));
  const { key } = await running.gateway.stores.keys.create({ name: "short", expires: Date.now() + 1500 });
  const answer = await ask(running.url, key, STREAMS[2] as (typeof STREAMS)[number]);
  t.equal(answer.status, 200);
  t.match(await said(answer), /event: error/);
  t.match(logged(running)[0], { outcome: "rejected", error: { message: /revoked or has expired/ } });
});

t.test("a WebSocket of a key that is disabled receives the reason, and is closed", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await startGateway(
    t,
    `providers: { v: { url: "http://127.0.0.1:${upstream.port}/v1", speaks: [openai-responses], websocket: true } }
share: all
models: { voice: { targets: [v:x] } }
paths: { /v1/realtime: { protocol: openai-realtime }, /raw/*: { pass: v, use: [auth, usage] } }
`,
  );
  const { keys } = running.gateway.stores;
  const { key } = await keys.create({ name: "one" });
  const address = `ws://127.0.0.1:${running.port}`;
  const bearer = { authorization: `Bearer ${key}` };
  const spoken = await open(`${address}/v1/realtime?model=voice`, [], bearer);
  const passed = await open(`${address}/raw/x`, [], bearer);
  await keys.disable("one");
  t.equal(await spoken.closed, 1008);
  t.match(JSON.parse(spoken.messages.at(-1) ?? "{}"), { type: "error", error: { message: /switched off/ } });
  t.equal(await passed.closed, 1008);
  t.equal(passed.messages.length, 0, "the content of these messages is unknown");
  await until(() => logged(running).length === 2, "the log");
  for (const line of logged(running))
    t.match(line, { outcome: "rejected", close: 1008, error: { code: "disabled_api_key" } });
});

/** A gateway in processes of its own, and a stream that it has begun. */
async function streaming(t: Test, more = "") {
  const gateway = await startProcess(t, `${await hanging(t)}${more}`);
  // This process is another one than the gateway's.
  const stores = openStores(join(gateway.folder, "gateway.db"), [], () => {});
  t.teardown(() => stores.close());
  const { key } = await stores.keys.create({ name: "one", group: "acme/research" });
  const stream = await ask(gateway.url, key, STREAMS[0] as (typeof STREAMS)[number]);
  t.equal(stream.status, 200);
  return { gateway, key, stream, stores };
}

t.test(
  "a key that another process revokes is refused, and its running exchanges are ended, by every worker",
  async (t) => {
    const { gateway, key, stream } = await streaming(t, "workers: 2\n");
    const others = await Promise.all(
      [1, 2, 3].map(() => ask(gateway.url, key, STREAMS[0] as (typeof STREAMS)[number])),
    );
    const texts = [stream, ...others].map(said);
    await cli(gateway, "keys", "revoke", "one");
    for (const text of texts) t.match(await text, /was revoked/);
    await until(async () => (await list(gateway.url, key)).status === 401, "the refusal");
    await until(() => gateway.ledger().outcomes["rejected"] === 4, "the ledger");
  },
);

t.test(
  "a group that another process disables is refused, and its running exchanges end, in every worker",
  async (t) => {
    const { gateway, key, stream } = await streaming(t, "workers: 2\n");
    const others = await Promise.all(
      [1, 2, 3].map(() => ask(gateway.url, key, STREAMS[0] as (typeof STREAMS)[number])),
    );
    const texts = [stream, ...others].map(said);
    await cli(gateway, "groups", "disable", "acme");
    for (const text of texts) t.match(await text, /switched off/);
    await until(async () => (await list(gateway.url, key)).status === 401, "the refusal");
    await cli(gateway, "groups", "enable", "acme");
    await until(async () => (await list(gateway.url, key)).status === 200, "the key to work again");
  },
);

t.test(
  "while another process writes to the store for long, keys are found, and unknown ones are still refused",
  async (t) => {
    const { gateway, key, stream } = await streaming(t);
    const lock = new DatabaseSync(join(gateway.folder, "gateway.db"), { timeout: 5000 });
    t.teardown(() => lock.close());
    lock.exec("begin exclusive");
    for (let i = 0; i < 5; i++) t.equal((await list(gateway.url, key)).status, 200);
    t.equal((await list(gateway.url, generateKey().key)).status, 401);
    lock.exec("rollback");
    await stream.body?.cancel();
  },
);

t.test("revocations reach another process", { skip: REVOCATIONS === 0 }, async (t) => {
  const { gateway, stream, stores } = await streaming(t);
  await stream.body?.cancel();
  const took = { refused: [] as number[], ended: [] as number[] };
  for (let i = 0; i < REVOCATIONS; i++) {
    const { key, record } = await stores.keys.create({ name: `key-${i}` });
    const running = await ask(gateway.url, key, STREAMS[0] as (typeof STREAMS)[number]);
    t.equal(running.status, 200);
    await stores.keys.revoke(record.id);
    const began = performance.now();
    const end = said(running).then((text) => ({ text, took: performance.now() - began }));
    while ((await list(gateway.url, key)).status === 200);
    took.refused.push(performance.now() - began);
    const { text, took: until } = await end;
    t.match(text, /was revoked/);
    took.ended.push(until);
  }
  const p99 = (times: number[]) => times.sort((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1]?.toFixed(0);
  t.comment(`${REVOCATIONS} revocations: refused p99 ${p99(took.refused)} ms, streams ended p99 ${p99(took.ended)} ms`);
});
