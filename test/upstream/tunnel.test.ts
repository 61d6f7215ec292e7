import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import t, { type Test } from "tap";
import { Pools } from "../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import { client, failed, outgoing, until, whole } from "../support/upstream.ts";

/** A gateway's way out through a proxy that answers itself. */
async function behind(t: Test, answer: (request: IncomingMessage, reply: ServerResponse) => unknown) {
  const proxy = createServer(answer);
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const pools = new Pools({ environment: { HTTP_PROXY: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` } });
  t.teardown(async () => {
    await pools.destroy();
    proxy.closeAllConnections();
    proxy.close();
  });
  return new UpstreamProxy(pools);
}

const origin = new URL("http://provider.test:8080");

t.test("bodies of every kind go through, whole", async (t) => {
  const proxy = await behind(t, async (request, reply) => {
    const body = Buffer.concat(await Array.fromAsync(request));
    reply.end(`${body.length} ${request.headers["content-length"]} ${request.headers["transfer-encoding"]}`);
  });
  async function* pieces() {
    yield Buffer.alloc(70_000);
    yield Buffer.alloc(70_000);
  }
  for (const [body, length, said] of [
    [undefined, undefined, "0 0 undefined"],
    [[Buffer.from("ab"), Buffer.from("c")], undefined, "3 3 undefined"],
    [[Buffer.alloc(70_000), Buffer.alloc(1)], undefined, "70001 70001 undefined"],
    [pieces(), 140_000, "140000 140000 undefined"],
    [pieces(), undefined, "140000 undefined chunked"],
  ] as const) {
    const answer = await whole(await proxy.send(outgoing(origin, { body, length }), client()));
    t.equal(answer.body.toString(), said);
  }
});

t.test("a client that leaves is told of behind a proxy too; a broken answer is one", async (t) => {
  let closed = false;
  const proxy = await behind(t, (request, reply) => {
    reply.on("close", () => {
      closed = true;
    });
    if (!request.url?.endsWith("/cut")) return;
    reply.writeHead(200, { "content-length": 9 }).write("12345");
    setTimeout(() => reply.destroy(), 10);
  });
  const who = client();
  const sent = proxy.send(outgoing(origin), who);
  sent.catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 30));
  who.leave();
  t.match(await failed(sent), { code: "client_gone" });
  await until(() => closed);
  const { body, error } = await whole(await proxy.send(outgoing(origin, { path: "/cut" }), client()));
  t.equal(body.toString(), "12345");
  t.match(error, { code: "upstream_truncated" });
});

t.test("a kept connection to the proxy that proves closed is replaced once, unseen; a new one is not", async (t) => {
  t.intercept(performance, "now", { value: () => 1000 });
  const seen: string[] = [];
  let stale = new Set<unknown>();
  const proxy = await behind(t, async (request, reply) => {
    const body = Buffer.concat(await Array.fromAsync(request));
    seen.push(`${request.url} ${body}`);
    if (request.url?.endsWith("/fresh") || stale.has(request.socket)) request.socket.resetAndDestroy();
    else reply.end("ok");
    stale.add(request.socket);
  });
  const send = (path: string) => proxy.send(outgoing(origin, { path, body: [Buffer.from("x")] }), client());
  for (let i = 0; i < 2; i++) t.equal((await whole(await send("/kept"))).body.toString(), "ok");
  t.same(seen, Array(3).fill("http://provider.test:8080/kept x"));
  await failed(send("/fresh"));
  seen.length = 0;
  stale = new Set();
  t.match(await failed(send("/fresh")), { code: "upstream_failed" });
  t.equal(seen.length, 1);
});

t.test("what may not be written is refused by name", async (t) => {
  const proxy = await behind(t, () => t.fail("nothing was to be sent"));
  await t.rejects(proxy.send(outgoing(origin, { headers: ["x y", "1"] }), client()), { code: "internal" });
});
