import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import t from "tap";
import { Pools } from "../../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../../src/upstream/proxy.ts";
import { client, httpUpstream, outgoing, rawUpstream, until, whole } from "../../support/upstream.ts";

t.test("one lane for each origin, credential and connect limit", async (t) => {
  const pools = new Pools({ environment: {} });
  t.teardown(() => pools.close());
  const origin = new URL("http://a.test/v1");
  const lane = pools.lane(origin, "one", 5);
  t.equal(lane.origin, "http://a.test");
  t.equal(pools.lane(new URL("http://a.test:80/v2?x"), "one", 5), lane);
  for (const other of [
    pools.lane(origin, "two", 5),
    pools.lane(origin, "one", 6),
    pools.lane(new URL("https://a.test"), "one", 5),
    pools.lane(new URL("http://a.test:81"), "one", 5),
    pools.lane(new URL("http://b.test"), "one", 5),
  ]) {
    t.not(other, lane);
  }
});

t.test("a lane counts the connections made", async (t) => {
  const upstream = await httpUpstream();
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    await pools.destroy();
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const lane = pools.lane(upstream.origin, "one", 0);
  t.equal(lane.made, 0);
  await whole(await proxy.send(outgoing(upstream.origin), client()));
  await whole(await proxy.send(outgoing(upstream.origin), client()));
  t.equal(lane.made, 1);
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
      await pools.destroy();
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
    await pools.destroy();
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const sends = Array.from({ length: 8 }, async () => whole(await proxy.send(outgoing(upstream.origin), client())));
  for (const { body } of await Promise.all(sends)) t.equal(body.toString(), "ok");
  t.equal(most, 2);
});

t.test("destroy cuts what runs", async (t) => {
  const upstream = await httpUpstream(() => {});
  const pools = new Pools({ environment: {} });
  t.teardown(() => upstream.close());
  const sent = new UpstreamProxy(pools).send(outgoing(upstream.origin), client());
  await until(() => upstream.seen.length === 1);
  const [error] = await Promise.all([sent.catch((error) => error), pools.destroy()]);
  t.match(error, { code: "draining" });
});

t.test("a proxy named in the environment is used, and our bytes with it; NO_PROXY is obeyed", async (t) => {
  const lines: string[] = [];
  const between = createServer((request, reply) => {
    lines.push(`${request.method} ${request.url} for ${request.headers.host}`);
    reply.end("by proxy");
  });
  between.listen(0, "127.0.0.1");
  await once(between, "listening");
  const upstream = await httpUpstream();
  const address = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
  const pools = new Pools({ environment: { HTTP_PROXY: address, no_proxy: "127.0.0.1" } });
  t.teardown(async () => {
    await pools.destroy();
    await upstream.close();
    between.closeAllConnections();
    between.close();
  });
  const proxy = new UpstreamProxy(pools);

  const direct = await whole(await proxy.send(outgoing(upstream.origin), client()));
  t.equal(direct.body.toString(), "{}");
  t.same(lines, []);

  const origin = new URL("http://provider.test:8080");
  const path = "/a//b/../%2e?q=%20";
  const proxied = await proxy.send(outgoing(origin, { path, body: [Buffer.from("x")] }), client());
  t.equal((await whole(proxied)).body.toString(), "by proxy");
  t.same(lines, [`POST http://provider.test:8080${path} for provider.test:8080`]);
});
