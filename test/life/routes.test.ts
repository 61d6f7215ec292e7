import t from "tap";
import { KEY, startGateway } from "../support/gateway.ts";
import { each, send } from "../support/raw.ts";
import { rawUpstream } from "../support/upstream.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const BODY = '{"model":"any","messages":[],"contents":[],"input":"x","prompt":"x"}';
/** What follows the request's line and its host. */
const PLAIN = `connection: close\r\ncontent-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;
const WRONG = `x-api-key: gw_wrong\r\n${PLAIN}`;
const UPGRADE = `connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\n\r\n`;
/** What stands in the place of a path's `*`, and below the path of an answer that is kept. */
const BELOW = [
  ...["any:generateContent", "any:streamGenerateContent", "resp_1", "resp_1/cancel", "resp_1/input_items", "x/y"],
  ...["google/models/any:generateContent", "p/locations/l/publishers/google/models/any:generateContent"],
];
/** Paths that other servers open to anybody. */
const ELSEWHERE = [
  "/metrics",
  "/health",
  "/healthz",
  "/livez",
  "/readyz",
  "/admin",
  "/v1",
  "/debug/pprof",
  "/config",
  "/keys",
];
/** What anybody may ask. */
const OPEN = ["/", "/api/hello", "/livez", "/readyz"].flatMap((path) => [`GET ${path}`, `HEAD ${path}`]);

t.test("every path requires a key, whatever the method, and no provider is called without one", async (t) => {
  const upstream = await rawUpstream((socket) => socket.destroy());
  t.teardown(() => upstream.close());
  const running = await startGateway(
    t,
    `providers: { up: { url: "${upstream.origin.origin}/v1", speaks: [openai-chat, openai-completions, openai-responses, openai-images, openai-embeddings, anthropic-messages, gemini], websocket: true } }
models: { any: { targets: [up:any] } }
paths: { /v1/files: { pass: up }, /v1/audio/*: { pass: up }, /own/models: { serve: models }, /own/chat: { protocol: openai-chat } }
`,
  );
  const served = running.gateway.generation.paths.servedPaths();
  t.ok(served.length > 12 && served.includes("/v1/audio/*"), served.join(" "));
  const paths = served.flatMap((path) => {
    const stem = path.replace(/\/\*$/, "");
    return [...(stem === path ? [path, `${path}?model=any`] : []), ...BELOW.map((below) => `${stem}/${below}`)];
  });
  const asked = [...paths, ...ELSEWHERE, "/", "/api/hello"].flatMap((path) => [
    ...METHODS.flatMap((method) => [PLAIN, WRONG].map((rest) => ({ path, method, rest }))),
    { path, method: "GET", rest: UPGRADE },
  ]);
  const talks = await each(asked, ({ path, method, rest }) =>
    send(running.port, `${method} ${path} HTTP/1.1\r\nhost: a\r\n${rest}`),
  );
  const opened = asked.flatMap(({ path, method, rest }, i) => {
    const status = talks[i]?.statuses[0] ?? 0;
    return status >= 400 || (rest !== UPGRADE && OPEN.includes(`${method} ${path}`))
      ? []
      : [`${method} ${path} ${status}`];
  });
  t.same(opened, [], `${asked.length} requests`);
  for (const path of served) {
    const stem = path.replace(/\*$/, "");
    const statuses = asked.flatMap((one, i) =>
      one.path.startsWith(stem) && one.rest !== WRONG ? talks[i]?.statuses : [],
    );
    t.ok(statuses.includes(401), `${path} requires a key: ${statuses}`);
  }
  t.equal(upstream.connections, 0, "no provider was called");
  const keyed = await send(running.port, `GET /v1/models HTTP/1.1\r\nhost: a\r\nx-api-key: ${KEY}\r\n\r\n`);
  t.same(keyed.statuses, [200], "with one it is answered, from the same address");
});
