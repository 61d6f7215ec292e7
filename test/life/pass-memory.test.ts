import { once } from "node:events";
import { createServer, request } from "node:http";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import t from "tap";
import { KEY } from "../support/key.ts";
import { listen } from "../support/listen.ts";
import { KEPT, startNginx } from "../support/nginx.ts";
import { ownGateway, ROOT, started } from "../support/processes.ts";
import { open, type Seen, socketUpstream } from "../support/sockets.ts";

/** With GATEWAY_TEST_HEAVY=1 more of it, and against stricter bounds; needs a machine that has nothing else to do. */
const HEAVY = process.env["GATEWAY_TEST_HEAVY"] === "1";
const MIB = 2 ** 20;
/** So much that a body which is kept would show. */
const SIZE = (HEAVY ? 100 : 200) * MIB;
const ROUNDS = HEAVY ? 10 : 1;
/** MiB by which the gateway's memory may grow more than that of a bare proxy. */
const MORE = HEAVY ? 10 : 100;
const SOCKETS = 500;

/** The least that can be called a proxy. */
const BARE = `
import { Agent, createServer, request } from "node:http";
const agent = new Agent({ keepAlive: true });
createServer((req, res) => {
  const out = request({ host: "127.0.0.1", port: process.argv[1], method: req.method, path: req.url, headers: req.headers, agent });
  out.on("response", (answer) => { res.writeHead(answer.statusCode, answer.headers); answer.pipe(res); });
  req.pipe(out);
}).listen(0, "127.0.0.1", function () { console.log("listening on 127.0.0.1:" + this.address().port); });
`;

const PIECE = Buffer.alloc(64 * 1024, "x");

function* pieces(): Generator<Buffer> {
  for (let sent = 0; sent < SIZE; sent += PIECE.length) yield PIECE;
}

const nothing = (): Writable => new Writable({ write: (_piece, _encoding, done) => done() });

/** Sends as much through a proxy as it gets back. */
async function round(port: number): Promise<void> {
  for (const method of ["POST", "GET"]) {
    const headers = { "x-api-key": KEY, ...(method === "POST" ? { "content-length": SIZE } : {}) };
    const asked = request({ port, host: "127.0.0.1", method, path: "/v1/files", headers });
    const answered = once(asked, "response") as Promise<[Readable]>;
    if (method === "POST") await pipeline(Readable.from(pieces(), { objectMode: false }), asked);
    else asked.end();
    const [answer] = await answered;
    let size = 0;
    answer.on("data", (piece: Buffer) => (size += piece.length));
    await pipeline(answer, nothing());
    if (method === "GET" && size !== SIZE) throw new Error(`${size} bytes came`);
  }
}

const skipped = process.platform === "linux" ? {} : { skip: "memory is read from /proc" };

t.test(`${SIZE / MIB} MiB up and down ${ROUNDS} times take no more memory than in a bare proxy`, skipped, async (t) => {
  const upstream = createServer((asked, response) => {
    if (asked.method === "GET") {
      response.setHeader("content-length", SIZE);
      pipeline(Readable.from(pieces(), { objectMode: false }), response).catch(() => {});
    } else {
      pipeline(asked, nothing()).then(
        () => response.end("{}"),
        () => {},
      );
    }
  });
  const to = await listen(t, upstream);
  const proxies = {
    bare: await started(t, ["--input-type=module", "-e", BARE, String(to)], ROOT),
    ours: await ownGateway(t, `http://127.0.0.1:${to}/v1`, "paths: { /v1/files/*: { pass: a, open: true } }\n"),
  };
  const grown = { bare: [] as number[], ours: [] as number[] };
  const idle = { bare: proxies.bare.memory().now, ours: proxies.ours.memory().now };
  for (let i = 0; i < ROUNDS; i++)
    for (const name of ["bare", "ours"] as const) {
      proxies[name].forget();
      await round(proxies[name].port);
      grown[name].push(Math.round(proxies[name].memory().peak - idle[name]));
    }
  const told = `peaks over idle in MiB: bare ${grown.bare.join(" ")}, ours ${grown.ours.join(" ")}; idle ${Math.round(idle.bare)} and ${Math.round(idle.ours)}`;
  t.comment(told);
  t.ok(Math.max(...grown.ours) <= Math.max(...grown.bare) + MORE, told);
  const directives = `${KEPT} client_max_body_size 0; proxy_request_buffering off; proxy_buffering off;`;
  const nginx = HEAVY ? await startNginx(t, proxies.ours.port, directives) : undefined;
  if (nginx) {
    proxies.ours.forget();
    await round(nginx.port);
    const behind = Math.round(proxies.ours.memory().peak - idle.ours);
    t.ok(behind <= Math.max(...grown.bare) + MORE, `behind nginx ${behind} MiB, ${told}`);
  }
  if (HEAVY) t.ok((grown.ours.at(-1) ?? 0) <= (grown.ours[1] ?? 0) + 10, `flat: ${told}`);
});

t.test(`${SOCKETS} open WebSockets take little memory`, skipped, async (t) => {
  const upstream = await socketUpstream(t);
  const proxy = await ownGateway(t, `http://127.0.0.1:${upstream.port}/v1`, "");
  const address = `ws://127.0.0.1:${proxy.port}/v1/realtime?model=m`;
  const seen: Seen[] = [];
  const idle = proxy.memory().now;
  for (let i = 0; i < SOCKETS; i++) seen.push(await open(address, [], { "x-api-key": KEY }));
  const heard = seen.map(({ socket }) => once(socket, "message"));
  for (const { socket } of seen) socket.send("z".repeat(1000));
  await Promise.all(heard);
  const grown = Math.round(proxy.memory().now - idle);
  t.comment(`${SOCKETS} sockets: ${grown} MiB`);
  t.ok(grown <= 100, `${grown} MiB for ${SOCKETS} sockets`);
  for (const { socket } of seen) socket.terminate();
});
