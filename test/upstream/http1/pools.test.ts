import type { Socket } from "node:net";
import t from "tap";
import { Pools } from "../../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../../src/upstream/proxy.ts";
import { closePools } from "../../support/proxied.ts";
import { until } from "../../support/until.ts";
import { client, failed, httpUpstream, outgoing, rawUpstream, whole } from "../../support/upstream.ts";

t.test("each origin and credential has a pool of its own", async (t) => {
  const pools = new Pools({ environment: {} });
  t.teardown(() => closePools(pools));
  const origin = new URL("http://a.test/v1");
  const pool = pools.pool(origin, "one");
  t.equal(pool.origin, "http://a.test");
  t.equal(pools.pool(new URL("http://a.test:80/v2?x"), "one"), pool);
  for (const other of [
    pools.pool(origin, "two"),
    pools.pool(new URL("https://a.test"), "one"),
    pools.pool(new URL("http://a.test:81"), "one"),
    pools.pool(new URL("http://b.test"), "one"),
  ]) {
    t.not(other, pool);
  }
});

t.test("a pool counts the connections it opens", async (t) => {
  const upstream = await httpUpstream();
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const pool = pools.pool(upstream.origin, "one");
  t.equal(pool.opened, 0);
  await whole(await proxy.send(outgoing(upstream.origin), client()));
  await whole(await proxy.send(outgoing(upstream.origin), client()));
  t.equal(pool.opened, 1);
  t.equal(upstream.connections, 1);
});

t.test("an unused connection is closed after its time, however long the provider would keep it", async (t) => {
  for (const header of ["", "keep-alive: timeout=600\r\n"]) {
    const sockets: Socket[] = [];
    const upstream = await rawUpstream((socket) => {
      sockets.push(socket);
      socket.write(`HTTP/1.1 200 OK\r\n${header}content-length: 2\r\n\r\nok`);
    });
    const pools = new Pools({ environment: {}, keepAlive: 40 });
    t.teardown(async () => {
      void closePools(pools);
      await upstream.close();
    });
    await whole(await new UpstreamProxy(pools).send(outgoing(upstream.origin), client()));
    await until(() => sockets.length === 1 && sockets[0]?.destroyed === true, "the close");
    t.equal(upstream.connections, 1);
  }
});

t.test("no more connections than allowed; the others wait", async (t) => {
  let running = 0;
  let most = 0;
  const upstream = await httpUpstream(async (_request, reply) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running--;
    reply.end("ok");
  });
  const pools = new Pools({ environment: {}, connections: 2 });
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const sends = Array.from({ length: 8 }, async () => whole(await proxy.send(outgoing(upstream.origin), client())));
  for (const { body } of await Promise.all(sends)) t.equal(body.toString(), "ok");
  t.equal(most, 2);
});

t.test("the pools of unused accounts close as soon as their requests have ended", async (t) => {
  let answer = () => {};
  const upstream = await httpUpstream((_request, reply) => {
    answer = () => reply.end("ok");
  });
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const origin = upstream.origin;
  const [left, used] = [pools.pool(origin, "left"), pools.pool(origin, "used")];
  const sent = proxy.send(outgoing(origin, { credentialId: "left" }), client());
  await until(() => upstream.seen.length === 1);
  let isClosed = false;
  const closed = pools.retain(new Set([`${origin.origin} used`])).then(() => (isClosed = true));
  t.match(await failed(proxy.send(outgoing(origin, { credentialId: "left" }), client())), { code: "draining" });
  t.notOk(isClosed);
  answer();
  t.equal((await whole(await sent)).body.toString(), "ok");
  await closed;
  t.equal(pools.pool(new URL(origin), "used"), used);
  t.not(pools.pool(new URL(origin), "left"), left);
});
