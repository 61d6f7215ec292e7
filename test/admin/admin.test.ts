import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, linkSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { request } from "node:http";
import { connect as connectHttp2, constants } from "node:http2";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import t, { type Test } from "tap";
import { Admin, type AdminListenAddress } from "../../src/admin/admin.ts";
import type { AdminGateway } from "../../src/admin/admin-gateway.ts";
import type { Readiness } from "../../src/admin/readiness.ts";
import { type PathRequest } from "../../src/console/console-pages.ts";
import { MemoryLog } from "../support/gateway.ts";
import { startAdmin, TOKEN, WITH_TOKENS } from "./support.ts";

async function admin(t: Test, readiness: () => Readiness, place: AdminListenAddress = { host: "127.0.0.1", port: 0 }) {
  const side = new Admin({ readiness, stores: {} } as AdminGateway, { log: new MemoryLog() });
  t.teardown(() => side.close());
  return side.listen(place);
}

/** Listens on a socket file with a short queue, and then runs nothing any more. */
const LISTENS_AND_BLOCKS = `require("node:net").createServer().listen({ path: process.argv[1], backlog: 1 }, () => {
  require("node:fs").writeSync(1, "listening");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
})`;

const READY: Readiness = { ready: true, parts: { gateway: "ok" } };

t.test("/livez and /readyz respond under any host name, ready as long as the gateway is", async (t) => {
  let now: Readiness = READY;
  const url = await admin(t, () => now);
  const ask = async (path: string) => {
    const response = await fetch(url + path);
    return [response.status, await response.json()];
  };
  t.same(await ask("/livez"), [200, { live: true }]);
  t.same(await ask("/readyz?verbose"), [200, { ready: true, gateway: "ok" }]);
  now = { ready: false, parts: { gateway: "stopping" } };
  t.same(await ask("/readyz"), [503, { ready: false, gateway: "stopping" }]);
  t.same(await ask("/livez"), [200, { live: true }]);
  const written = await fetch(`${url}/readyz`, { method: "POST", body: "x" });
  t.same([written.status, written.headers.get("allow")], [405, "GET, HEAD"]);
});

t.test(
  "it listens on a socket file, also in place of a dead process's file, but never of another live one's",
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "gateway-admin-"));
    t.teardown(() => rmSync(folder, { recursive: true }));
    const path = join(folder, "admin.sock");
    t.equal(await admin(t, () => READY, { path }), `unix:${path}`);
    const asked = request({ socketPath: path, path: "/livez" }).end();
    const [answer] = await once(asked, "response");
    t.match(await text(answer), /live/);
    await t.rejects(
      admin(t, () => READY, { path }),
      { code: "EADDRINUSE" },
    );
    const left = join(folder, "left.sock");
    const dead = createServer().listen(left);
    await once(dead, "listening");
    // What a killed process leaves: the file, and nobody behind it.
    linkSync(left, `${left}.kept`);
    dead.close();
    await once(dead, "close");
    t.ok(existsSync(`${left}.kept`));
    t.equal(await admin(t, () => READY, { path: `${left}.kept` }), `unix:${left}.kept`);
  },
);

t.test("of gateways that start at once in place of a dead one, one listens, and is reachable", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-admin-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "admin.sock");
  const dead = createServer().listen(`${path}.dead`);
  await once(dead, "listening");
  linkSync(`${path}.dead`, path);
  dead.close();
  await once(dead, "close");
  const starts = await Promise.allSettled([1, 2, 3, 4].map(() => admin(t, () => READY, { path })));
  const refused = starts.filter((start) => start.status === "rejected");
  t.equal(refused.length, 3);
  for (const { reason } of refused) t.match(reason, { code: "EADDRINUSE" });
  const [answer] = await once(request({ socketPath: path, path: "/livez" }).end(), "response");
  t.match(await text(answer), /live/);
  t.same(readdirSync(folder), ["admin.sock"]);
});

t.test("it does not take the socket file of a live process that is too busy to accept connections", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-admin-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "admin.sock");
  const busy = spawn(process.execPath, ["-e", LISTENS_AND_BLOCKS, path], { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => busy.kill("SIGKILL"));
  await once(busy.stdout, "data");
  // Until its queue is full.
  const sockets: Socket[] = [];
  t.teardown(() => sockets.forEach((socket) => void socket.destroy()));
  for (let isFull = false; !isFull; ) {
    const socket = connect(path);
    sockets.push(socket);
    isFull = await once(socket, "connect").then(
      () => false,
      ({ code }) => code === "EAGAIN",
    );
  }
  await t.rejects(
    admin(t, () => READY, { path }),
    { code: "EADDRINUSE" },
  );
  t.ok(existsSync(path));
});

t.test("a request for an unexpected host name reaches only the probes", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  const authorization = `Bearer ${TOKEN}`;
  for (const [host, status] of [
    ["evil.example", 421],
    ["evil.example:9090", 421],
    ["localhost.evil.example", 421],
    ["console.test", 200],
    ["Console.Test:9090", 200],
    ["localhost:9090", 200],
    ["[::1]:9090", 200],
    ["10.1.2.3:9090", 200],
  ] as const) {
    t.equal((await ask("GET", "/api/now", { headers: { host, authorization } })).status, status, host);
    t.equal((await ask("GET", "/livez", { headers: { host } })).status, 200);
  }
});

t.test("a request with two hosts is refused in either order", async (t) => {
  const { base } = await startAdmin(t, WITH_TOKENS);
  for (const hosts of [
    ["localhost", "evil.example"],
    ["evil.example", "localhost"],
  ]) {
    const head = hosts.map((host) => `host: ${host}\r\n`).join("");
    const socket = connect(Number(new URL(base).port), "127.0.0.1");
    socket.end(`GET /api/now HTTP/1.1\r\n${head}authorization: Bearer ${TOKEN}\r\nconnection: close\r\n\r\n`);
    t.match(await text(socket), /^HTTP\/1\.1 4/);
  }
});

t.test("a page of another site changes nothing, even where no sign-in is required", async (t) => {
  const { ask, base } = await startAdmin(t);
  const create = (headers: Record<string, string>) => ask("POST", "/api/keys", { headers, body: { name: "x" } });
  t.equal((await create({ origin: "https://evil.example" })).status, 403);
  t.equal((await create({ origin: "null" })).status, 403);
  t.equal((await create({ "sec-fetch-site": "cross-site" })).status, 403);
  t.equal((await create({ origin: "https://evil.example", "content-type": "text/plain" })).status, 403);
  t.equal((await create({ "content-type": "text/plain" })).status, 400, "a form could send that type");
  t.equal((await create({ origin: base })).status, 201);
});

t.test("a page of another site cannot keep the gateway busy with reads, but may link to a page", async (t) => {
  const { ask } = await startAdmin(t);
  const read = async (headers: Record<string, string>, path = "/api/now") =>
    (await ask("GET", path, { headers: { ...headers } })).status;
  const site = "sec-fetch-site";
  for (const path of ["/api/now", "/api/config/diff", "/api/live/events", "/metrics", "/openapi.json"]) {
    t.equal(await read({ [site]: "cross-site", "sec-fetch-dest": "image" }, path), 403, path);
    t.equal(await read({ [site]: "cross-site", "sec-fetch-dest": "iframe", "sec-fetch-mode": "navigate" }, path), 403);
    t.equal(await read({ [site]: "cross-site" }, path), 403);
    t.equal(
      await read({ [site]: "same-site", "sec-fetch-dest": "image" }, path),
      403,
      "of another port of this machine",
    );
  }
  for (const other of ["cross-site", "same-site"])
    t.equal(await read({ [site]: other, "sec-fetch-dest": "document" }), 200, other);
  for (const own of ["same-origin", "none"]) t.equal(await read({ [site]: own, "sec-fetch-dest": "empty" }), 200, own);
  t.equal(await read({}), 200, "programs say nothing of it");
});

t.test("an unknown path, an invalid body and a body that is too large are reported", async (t) => {
  const { ask } = await startAdmin(t);
  const code = async (method: string, path: string, body?: unknown) => {
    const answer = await ask(method, path, body === undefined ? {} : { body });
    return [answer.status, answer.body.error.code];
  };
  t.same(await code("GET", "/nothing"), [404, "not_found"]);
  t.same(await code("GET", "/api/nothing"), [404, "not_found"]);
  t.same(await code("PUT", "/api/keys"), [405, "method_not_allowed"]);
  t.same(await code("GET", "/api/keys/%zz"), [400, "bad_request"]);
  t.same(await code("POST", "/api/keys", [1]), [400, "bad_request"]);
  t.same(await code("POST", "/api/keys", { name: "x".repeat(70_000) }), [413, "too_large"]);
  t.same(await code("GET", "/metrics"), [404, "not_found"]);
});

t.test("paths outside the API are served as pages", async (t) => {
  const pages = {
    serve: ({ response, path }: PathRequest) => {
      if (path !== "/") return false;
      response.end("a page");
      return true;
    },
  };
  const { ask } = await startAdmin(t, undefined, { pages } as never);
  t.equal((await ask("GET", "/")).body, "a page");
  t.equal((await ask("GET", "/", { headers: { host: "evil.example" } })).status, 421);
  t.equal((await ask("GET", "/other")).status, 404);
});

t.test("a client that disconnects before its body is complete is not logged as a failure", async (t) => {
  const { base, log } = await startAdmin(t);
  const { port } = new URL(base);
  const socket = connect(Number(port), "127.0.0.1");
  socket.write("POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{");
  await new Promise((resolve) => setTimeout(resolve, 50));
  socket.resetAndDestroy();
  await once(socket, "close");
  await fetch(`http://127.0.0.1:${port}/livez`);
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.same(
    log.lines.filter(({ level }) => level === "error"),
    [],
  );
});

t.test("a method that is not allowed is refused, and Allow lists those that are", async (t) => {
  const { ask } = await startAdmin(t);
  for (const [method, path, allow] of [
    ["PUT", "/api/keys", "GET, HEAD, POST"],
    ["GET", "/api/reload", "POST"],
    ["PUT", "/api/session", "GET, HEAD, POST, DELETE"],
    ["POST", "/api/session/oidc", "GET"],
    ["POST", "/livez", "GET, HEAD"],
  ] as const)
    t.match(await ask(method, path), { status: 405, headers: { allow } }, `${method} ${path}`);
});

t.test("what is no HTTP/1.1 gets an answer that it can read", async (t) => {
  const url = await admin(t, () => READY);
  const session = connectHttp2(url);
  session.on("error", () => {});
  t.teardown(() => session.destroy());
  const [code, , why] = await once(session, "goaway");
  t.equal(code, constants.NGHTTP2_HTTP_1_1_REQUIRED);
  t.match(String(why), /HTTP\/1\.1/);
  for (const [bytes, status] of [
    ["GARBAGE\r\n\r\n", 400],
    [`GET / HTTP/1.1\r\nx: ${"x".repeat(9000)}\r\n\r\n`, 431],
  ] as const) {
    const socket = connect(Number(new URL(url).port), "127.0.0.1").setEncoding("latin1");
    socket.write(bytes);
    let text = "";
    for await (const piece of socket) text += piece;
    t.match(text, `HTTP/1.1 ${status} `);
  }
});
