import { Agent, type IncomingMessage, request } from "node:http";
import { gzipSync, zstdCompressSync } from "node:zlib";
import t, { type Test } from "tap";
import { CLIENT_BODIES } from "../support/client-bodies.ts";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { gathered } from "../support/gathered.ts";
import { send } from "../support/raw.ts";
import { httpUpstream } from "../support/upstream.ts";

const SPEAKS = "[openai-chat, openai-responses, anthropic-messages, gemini]";
const ASKED =
  'contents":[{"role":"user","parts":[{"text":"Hi"}]}],"messages":[{"role":"user","content":"Hi"}],"input":"Hi';
const body = (model: string) => `{"model":"${model}","max_tokens":9,"${ASKED}"}`;
const demo = (t: Test): Promise<Running> =>
  startGateway(
    t,
    `providers: { demo: { url: "demo:" } }\nmodels: { echo: { aliases: [acme/echo], targets: [demo:echo] }, error-429: { targets: [demo:error-429] } }\n`,
  );
const post = (url: string, headers: Record<string, string>, text = body("echo")) =>
  fetch(url, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: text });

t.test("the key is read from wherever a client sends it, whatever the protocol", async (t) => {
  const { url } = await demo(t);
  const paths = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/echo:generateContent",
    "/v1beta/models/echo:streamGenerateContent?alt=sse",
  ];
  const vendors = { authorization: "Bearer sk-a-key-of-some-vendor" };
  const places: Record<string, Record<string, string>> = {
    bearer: { authorization: `Bearer ${KEY}` },
    "x-api-key": { "x-api-key": KEY },
    "x-goog-api-key": { "x-goog-api-key": KEY },
    "one key in two places": { authorization: `Bearer ${KEY}`, "x-goog-api-key": KEY },
    "ours beside a vendor's": { ...vendors, "x-api-key": KEY },
  };
  for (const path of paths) {
    for (const [place, headers] of Object.entries(places))
      t.equal((await post(url + path, headers)).status, 200, `${path}, ${place}`);
    const query = `${path}${path.includes("?") ? "&" : "?"}key=${KEY}`;
    t.equal((await post(url + query, {})).status, 200, `${path}, ?key=`);
    t.equal((await post(url + path, vendors)).status, 401, `${path}, a vendor's alone`);
  }
});

t.test("every base address that clients were observed to build is served", async (t) => {
  const { url } = await demo(t);
  const generate = ["v1", "v1beta", "v1alpha", "v1beta1/publishers/google"].map(
    (base) => `/${base}/models/echo:generateContent`,
  );
  const paths = [
    "/v1/messages?beta=true",
    "/v1/v1/messages?beta=true",
    "/messages",
    "/v1/messages/count_tokens?beta=true",
    "/v1/chat/completions/",
    "/v1/v1/chat/completions",
    "/chat/completions",
    "/responses",
    ...generate,
    "/v1beta/v1beta/models/echo:generateContent",
    "/v1beta/v1/models/echo:generateContent",
    "/v1beta/models/acme/echo:generateContent",
    "/v1beta/models/acme%2Fecho%3AgenerateContent",
  ];
  for (const path of paths) {
    const answer = await post(url + path, asking());
    t.equal(answer.status, 200, `${path} ${await answer.text()}`);
  }
});

t.test(
  "a client's check whether the server is there is answered at once, without a key and without a body",
  async (t) => {
    const { url } = await demo(t);
    for (const path of ["/", "/api/hello"]) {
      const answer = await fetch(url + path, { method: "HEAD" });
      t.equal(answer.status, 200, path);
      t.equal(await answer.text(), "", path);
    }
  },
);

t.test("an upgrade to WebSocket is answered with 426, so that Codex falls back at once", async (t) => {
  const { port } = await demo(t);
  const upgrade =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AA==\r\n";
  const { statuses } = await send(port, `GET /v1/responses HTTP/1.1\r\nHost: gateway\r\n${upgrade}\r\n`);
  t.same(statuses, [426]);
});

/** An error in the words of each protocol: what must be in its body. */
const DIALECTS = {
  "/v1/chat/completions": () => ({ error: { message: String, type: String, code: String } }),
  "/v1/messages": () => ({ type: "error", error: { type: String, message: String }, request_id: String }),
  "/v1beta/models/no-such:generateContent": (code: number) => ({ error: { code, message: String, status: String } }),
} as const;

gathered(
  t,
  "every refusal of the gateway's own is in the caller's dialect, with an id, and says whether to retry",
  async (t) => {
    const closed = await httpUpstream();
    await closed.close();
    const { url } = await startGateway(
      t,
      `providers: { gone: { url: "${closed.origin.origin}", speaks: ${SPEAKS} } }\nmodels: { gone: { targets: [gone:m] } }\nbody: { limit: 64KiB }\n`,
    );
    for (const [path, shape] of Object.entries(DIALECTS)) {
      const gone = path.replace("no-such", "gone");
      const cases: [status: number, retry: string | null, answer: Response][] = [
        [401, "false", await post(url + path, {})],
        [401, "false", await post(url + path, { authorization: "Bearer wrong-key-0123456789" })],
        [404, "false", await post(url + path, asking(), body("no-such"))],
        [400, "false", await post(url + gone, asking(), '{"model":')],
        [413, "false", await post(url + gone, asking(), body("x".repeat(70_000)))],
        [502, null, await post(url + gone, asking(), body("gone"))],
      ];
      for (const [status, retry, answer] of cases) {
        t.equal(answer.status, status, path);
        t.match(await answer.json(), shape(status), `${path} ${status}`);
        t.match(answer.headers.get(path === "/v1/messages" ? "request-id" : "x-request-id"), /./, `${path} ${status}`);
        t.equal(answer.headers.get("x-should-retry"), retry, `${path} ${status}`);
      }
    }
    const nowhere = await fetch(`${url}/v1/nonexistent`, { headers: asking() });
    t.equal(nowhere.status, 404);
    t.match(await nowhere.json(), { error: { message: /not served here/ } });
  },
);

gathered(t, "a provider's refusal keeps its status and its words, and when to come back", async (t) => {
  const words = '{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}';
  const upstream = await httpUpstream(({ body }, reply) => {
    const status = Number(/"status-(\d+)"/.exec(body.toString())?.[1]);
    const wait = status === 429 ? { "retry-after": "3", "retry-after-ms": "2500" } : {};
    reply.writeHead(status, { "content-type": "application/json", "request-id": "theirs", ...wait }).end(words);
  });
  t.teardown(() => upstream.close());
  const statuses = [400, 401, 402, 403, 404, 413, 429, 500, 529];
  const models = statuses.map((status) => `  m${status}: { targets: [up:status-${status}] }\n`).join("");
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: ${SPEAKS} } }\nmodels:\n${models}`,
  );
  for (const status of statuses) {
    for (const stream of [false, true]) {
      const asked = body(`m${status}`).replace("{", `{"stream":${stream},`);
      const answer = await post(`${url}/v1/messages`, asking(), asked);
      t.equal(answer.status, status);
      t.equal(await answer.text(), words);
      t.equal(answer.headers.get("retry-after"), status === 429 ? "3" : null);
      t.equal(answer.headers.get("retry-after-ms"), status === 429 ? "2500" : null);
      t.equal(
        answer.headers.get("x-should-retry"),
        [401, 402, 403, 404, 500, 529].includes(status) ? "false" : null,
        `${status}`,
      );
      t.match(answer.headers.get("request-id"), /./);
      t.not(answer.headers.get("request-id"), "theirs", "the id is the one in the gateway's log");
    }
  }
});

t.test("members that agents send outside any specification reach the provider byte for byte", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: ${SPEAKS}, shared: [rs_0] } }\nmodels: { asked: { targets: [up:served] } }\n`,
  );
  for (const { path, headers, body } of Object.values(CLIENT_BODIES)) {
    const answer = await post(url + path, asking(headers), body);
    t.equal(answer.status, 200, path);
    t.notOk(answer.headers.has("gateway-notice"), `${path}: nothing was removed`);
    const seen = upstream.seen.at(-1);
    t.equal(seen?.body.toString(), body.replace('"asked"', '"served"'), path);
    t.equal(seen?.url, path.replace("asked", "served"));
    const lines = seen?.rawHeaders ?? [];
    for (const [name, value] of Object.entries(headers))
      t.equal(lines[lines.findIndex((line) => line.toLowerCase() === name) + 1], value, name);
  }
});

t.test("bodies of 12 MB, in chunks, compressed and with a length arrive complete", async (t) => {
  const upstream = await httpUpstream();
  t.teardown(() => upstream.close());
  const { url, port } = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}", speaks: ${SPEAKS} } }\nmodels: { m: { targets: [up:m] } }\n`,
  );
  const picture = Buffer.alloc(9 << 20, 7).toString("base64");
  const large = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"${picture}"}]}`;
  const arrives = async (way: string, headers: Record<string, string>, sent: string, bytes: Buffer | string = sent) => {
    const answer = await fetch(`${url}/v1/messages`, { method: "POST", headers: asking(headers), body: bytes });
    t.equal(answer.status, 200, way);
    t.ok(upstream.seen.at(-1)?.body.equals(Buffer.from(sent)), `${way}: the bytes that were meant`);
  };
  await arrives("12 MB", {}, large);
  const small = body("m");
  await arrives("gzip", { "content-encoding": "gzip" }, small, gzipSync(small));
  await arrives("zstd", { "content-encoding": "zstd" }, small, zstdCompressSync(small));
  const announced = { ...asking(), expect: "100-continue", "transfer-encoding": "chunked" };
  const status = await new Promise((resolve, reject) => {
    const outgoing = request({ port, method: "POST", path: "/v1/messages", headers: announced }, (response) =>
      resolve(response.resume().statusCode),
    );
    outgoing.on("error", reject).on("continue", () => {
      outgoing.write(small.slice(0, 20));
      setImmediate(() => outgoing.end(small.slice(20)));
    });
    outgoing.flushHeaders();
  });
  t.equal(status, 200, "in chunks after 100 Continue");
  t.equal(upstream.seen.at(-1)?.body.toString(), small);
});

t.test(
  "each event is sent when it arrives, also to a client that accepts compression, and the connection stays",
  async (t) => {
    let next = () => {};
    const upstream = await httpUpstream(async (_, reply) => {
      reply.writeHead(200, { "content-type": "text/event-stream" });
      for (const event of ["message_start", "content_block_delta", "message_stop"]) {
        const asked = new Promise<void>((resolve) => (next = resolve));
        reply.write(`event: ${event}\ndata: {"type":"${event}"}\n\n`);
        if (event !== "message_stop") await asked;
      }
      reply.end();
    });
    t.teardown(() => upstream.close());
    const { port } = await startGateway(
      t,
      `providers: { up: { url: "${upstream.origin.origin}", speaks: ${SPEAKS} } }\nmodels: { m: { targets: [up:m] } }\n`,
    );
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    const ask = () =>
      new Promise<{ reused: boolean; events: number }>((resolve, reject) => {
        const headers = asking({ "accept-encoding": "gzip, br, zstd" });
        const options = { port, method: "POST", path: "/v1/messages", headers, agent };
        const outgoing = request(options, (response: IncomingMessage) => {
          let events = 0;
          response.setEncoding("utf8").on("data", (text: string) => {
            events += text.split("\n\n").length - 1;
            next();
          });
          response.on("end", () => resolve({ reused: outgoing.reusedSocket, events })).on("error", reject);
        });
        outgoing.on("error", reject).end(body("m").replace("{", '{"stream":true,'));
      });
    t.same(await ask(), { reused: false, events: 3 });
    t.same(await ask(), { reused: true, events: 3 });
  },
);

t.test("34 token counts at once, and a whole answer to a request as large as the streamed one", async (t) => {
  const { url } = await demo(t);
  const counts = await Promise.all(
    Array.from({ length: 34 }, () => post(`${url}/v1/messages/count_tokens?beta=true`, asking())),
  );
  for (const answer of counts) t.match(await answer.json(), { input_tokens: Number });
  const large = body("echo")
    .replaceAll('"Hi"', `"${"word ".repeat(25_000)}"`)
    .replace('"max_tokens":9', '"max_tokens":64000');
  for (const stream of [false, true]) {
    const answer = await post(`${url}/v1/messages`, asking(), large.replace("{", `{"stream":${stream},`));
    t.equal(answer.status, 200);
    t.ok((await answer.text()).length > 100_000);
  }
});

t.test("models are listed in the shape that a client expects, with any query parameters", async (t) => {
  const { url } = await demo(t);
  for (const [path, headers, found] of [
    ["/v1/models?limit=1000", { "anthropic-version": "2023-06-01" }, { data: [{ display_name: "echo" }] }],
    ["/v1/models?client_version=0.169.0", { originator: "codex_exec" }, { data: [{ object: "model" }] }],
    [
      "/v1/models?pageSize=50",
      { "x-goog-api-client": "google-genai-sdk/3.1.0" },
      { models: [{ name: "models/echo" }] },
    ],
  ] as const)
    t.match(await (await fetch(url + path, { headers: asking(headers) })).json(), found, path);
});
