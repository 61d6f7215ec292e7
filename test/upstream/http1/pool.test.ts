import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer, type Server, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { Worker } from "node:worker_threads";
import t, { type Test } from "tap";
import type { HttpRequest } from "../../../src/upstream/http1/http-request.ts";
import { Pools } from "../../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../../src/upstream/proxy.ts";
import { closePools, proxied } from "../../support/proxied.ts";
import { certificate, key } from "../../support/tls.ts";
import { until } from "../../support/until.ts";
import { client, failed, OK, outgoing, type RawRequest, rawUpstream, whole } from "../../support/upstream.ts";

async function secured(t: Test, script: (socket: TLSSocket) => void): Promise<{ origin: URL; server: Server }> {
  const server = createServer({ cert: certificate, key, ALPNProtocols: ["h2", "http/1.1"] }, script);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  return { origin: new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`), server };
}

t.test("over TLS: responses of every size, paused and resumed, on a kept connection", async (t) => {
  setDefaultCACertificates([certificate]);
  const size = 5 << 20;
  let connections = 0;
  const { origin } = await secured(t, (socket) => {
    connections++;
    t.equal(socket.alpnProtocol, "http/1.1");
    socket.on("error", () => {});
    socket.on("data", (bytes) => {
      if (bytes.toString("latin1").startsWith("POST /large"))
        socket.write(
          Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`), Buffer.alloc(size, "x")]),
        );
      else socket.write(OK);
    });
  });
  const pools = new Pools({ environment: {} });
  t.teardown(() => void closePools(pools));
  const proxy = new UpstreamProxy(pools);
  t.equal((await whole(await proxy.send(outgoing(origin), client()))).body.toString(), "ok");
  const answer = await proxy.send(outgoing(origin, { path: "/large" }), client());
  let read = 0;
  let ended = false;
  answer.read({
    chunk: (bytes) => {
      read += bytes.length;
      setTimeout(() => answer.resume(), 1);
      return false;
    },
    end: () => {
      ended = true;
    },
    fail: (error) => t.fail(error.message),
  });
  await until(() => ended);
  t.equal(read, size);
  t.equal((await whole(await proxy.send(outgoing(origin), client()))).body.toString(), "ok");
  t.equal(connections, 1);
});

t.test("over TLS: a provider that reads a part of a large request, answers and closes is heard", async (t) => {
  setDefaultCACertificates([certificate]);
  const { origin } = await secured(t, (socket) => {
    socket
      .on("error", () => {})
      .once("data", () => {
        socket.pause();
        // What has not been read makes the close a reset.
        socket.write("HTTP/1.1 413 x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmuch", () => socket.destroy());
      });
  });
  const pools = new Pools({ environment: {} });
  t.teardown(() => void closePools(pools));
  const proxy = new UpstreamProxy(pools);
  const body = Array.from({ length: 200 }, () => Buffer.alloc(1 << 16));
  for (let nth = 0; nth < 12; nth++) {
    // On a new connection, or on one that was ready.
    const answer = await proxy.send(outgoing(origin, { body, warm: 60_000 }), client());
    t.same([answer.status, (await whole(answer)).body.toString()], [413, "much"]);
  }
});

t.test("a certificate without a trusted authority is refused, whatever the environment says", async (t) => {
  setDefaultCACertificates([]);
  const { origin } = await secured(t, (socket) => socket.destroy());
  const pools = new Pools({ environment: {} });
  t.teardown(() => void closePools(pools));
  t.teardown(() => void delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]);
  for (const setting of [undefined, "0"]) {
    if (setting !== undefined) process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = setting;
    t.match(await failed(new UpstreamProxy(pools).send(outgoing(origin), client())), {
      code: "upstream_unreachable",
      cause: { code: "DEPTH_ZERO_SELF_SIGNED_CERT" },
    });
  }
});

t.test("bytes that arrived before a request was sent are not taken for its response", async (t) => {
  const sockets: Socket[] = [];
  const { upstream, proxy } = await proxied(t, (socket) => {
    sockets.push(socket);
    socket.write(OK);
  });
  await whole(await proxy.send(outgoing(upstream.origin), client()));
  await new Promise<void>((sent) =>
    sockets[0]?.write("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstale", () => sent()),
  );
  t.equal((await whole(await proxy.send(outgoing(upstream.origin), client()))).body.toString(), "ok");
  t.equal(upstream.connections, 2);
});

t.test("a provider's keep-alive timeout is respected", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) =>
    socket.write("HTTP/1.1 200 OK\r\nkeep-alive: timeout=2\r\ncontent-length: 2\r\n\r\nok"),
  );
  for (let i = 1; i <= 2; i++) {
    await whole(await proxy.send(outgoing(upstream.origin), client()));
    t.equal(upstream.connections, i);
  }
});

t.test("requests wait for a free connection in order", async (t) => {
  const paths: string[] = [];
  const answers: (() => void)[] = [];
  const { upstream, proxy } = await proxied(
    t,
    (socket, { head }) => {
      paths.push(head.split(" ")[1] as string);
      answers.push(() => socket.write(OK));
    },
    { connections: 1 },
  );
  const sent = ["/1", "/2", "/3", "/4"].map((path) => proxy.send(outgoing(upstream.origin, { path }), client()));
  for (let i = 1; i <= 4; i++) {
    await until(() => paths.length === i);
    answers.shift()?.();
  }
  t.same(paths, ["/1", "/2", "/3", "/4"]);
  for (const answer of sent) t.equal((await whole(await answer)).body.toString(), "ok");
});

t.test("a waiting request gets a new connection when its provider closes the one in use", async (t) => {
  const closing = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
  const { upstream, proxy } = await proxied(t, (socket) => socket.end(closing), { connections: 1 });
  const sent = Array.from({ length: 3 }, () => proxy.send(outgoing(upstream.origin), client()));
  for (const answer of sent) t.equal((await whole(await answer)).body.toString(), "ok");
  t.equal(upstream.connections, 3);
});

t.test(
  "the connection that was used last is used first, and each is closed when it has been idle for long",
  async (t) => {
    const asked: number[] = [];
    const answers: ((fields?: string) => void)[] = [];
    const { upstream, proxy } = await proxied(
      t,
      (socket, { connection }) => {
        asked.push(connection);
        answers.push((fields = "") => socket.write(`HTTP/1.1 200 OK\r\n${fields}content-length: 2\r\n\r\nok`));
      },
      { keepAlive: 500 },
    );
    const ask = async () => whole(await proxy.send(outgoing(upstream.origin), client()));
    const sent = [ask(), ask()];
    await until(() => asked.length === 2);
    for (const [i, answer] of answers.entries()) {
      answer();
      await sent[i];
    }
    // Each has a time of its own.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const third = ask();
    await until(() => asked.length === 3);
    answers[2]?.();
    await third;
    t.equal(asked[2], asked[1]);
    await until(() => upstream.open === 0, "the end of both");
    t.equal(upstream.connections, 2);
  },
);

t.test("a connection that its provider keeps for less time than others is closed before them", async (t) => {
  const { upstream, proxy } = await proxied(
    t,
    (socket, { head }) => {
      const field = head.startsWith("POST /short") ? "keep-alive: timeout=3\r\n" : "";
      socket.write(`HTTP/1.1 200 OK\r\n${field}content-length: 2\r\n\r\nok`);
    },
    { keepAlive: 60_000 },
  );
  const ask = async (path: string) => whole(await proxy.send(outgoing(upstream.origin, { path }), client()));
  await Promise.all([ask("/long"), ask("/short")]);
  await until(() => upstream.open === 1, "the end of the one");
});

t.test("closing waits for requests that have no connection yet", async (t) => {
  const { upstream, proxy, pools } = await proxied(t, (socket) => setTimeout(() => socket.write(OK), 5), {
    connections: 1,
  });
  const sent = Array.from({ length: 3 }, async () => whole(await proxy.send(outgoing(upstream.origin), client())));
  const closed = closePools(pools);
  for (const { body } of await Promise.all(sent)) t.equal(body.toString(), "ok");
  await closed;
});

t.test("closing does not wait for a connection kept for a cancelled request", async (t) => {
  let answer = () => {};
  const { upstream, proxy, pools } = await proxied(
    t,
    (socket) => {
      answer = () => socket.write(OK);
    },
    { connections: 1, keepAlive: 60_000 },
  );
  const first = proxy.send(outgoing(upstream.origin), client());
  await until(() => upstream.connections === 1);
  const gone = client();
  const second = failed(proxy.send(outgoing(upstream.origin), gone));
  await new Promise(setImmediate);
  let closed = false;
  void closePools(pools).then(() => {
    closed = true;
  });
  gone.leave();
  t.match(await second, { code: "client_gone" });
  answer();
  t.equal((await whole(await first)).body.toString(), "ok");
  await until(() => closed);
});

t.test("closing does not wait for a connection that was freed for a request which is cancelled then", async (t) => {
  const { upstream, pools } = await proxied(t, (socket) => socket.write(OK), { connections: 1, keepAlive: 60_000 });
  const pool = pools.pool(upstream.origin, "one");
  const request = (onEnd: () => void): HttpRequest => ({
    ...{ method: "GET", path: "/", fields: [], body: undefined, length: undefined },
    ...{ onStart: () => true, onBodySent() {}, onHead() {}, onData() {}, onError() {}, onEnd },
  });
  const second = request(() => t.fail("it was cancelled"));
  const { promise: first, resolve } = Promise.withResolvers<void>();
  // Called when the connection has been released.
  pool.send(
    request(() => {
      pool.cancel(second);
      resolve();
    }),
  );
  pool.send(second);
  let closed = false;
  void closePools(pools).then(() => {
    closed = true;
  });
  await first;
  await until(() => closed);
});

/** A listener that has stopped taking connections: who connects to it waits. */
async function full(t: Test): Promise<URL> {
  const listener = new Worker(
    `const { createServer } = require("node:net");
    const server = createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      require("node:worker_threads").parentPort.postMessage(server.address().port);
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
    });`,
    { eval: true },
  );
  const [port] = (await once(listener, "message")) as [number];
  const sockets = Array.from({ length: 4 }, () => connect(port, "127.0.0.1").on("error", () => {}));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    return listener.terminate();
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  return new URL(`http://127.0.0.1:${port}`);
}

/** Connections that this process is trying to make. */
const attempts = () => process.getActiveResourcesInfo().filter((name) => name.endsWith("ConnectWrap")).length;

t.test("an attempt to connect is aborted with its request", async (t) => {
  const origin = await full(t);
  const others = attempts();
  const pools = new Pools({ environment: {} });
  const proxy = new UpstreamProxy(pools);
  const clients = [client(), client()];
  const sent = clients.map((who) => failed(proxy.send(outgoing(origin), who)));
  await until(() => attempts() === others + 2);
  for (const [i, { leave }] of clients.entries()) {
    leave();
    t.match(await sent[i], { code: "client_gone" });
    await until(() => attempts() === others + 1 - i, "the end of the attempt");
  }
  const last = client();
  const sentLast = failed(proxy.send(outgoing(origin), last));
  await until(() => attempts() === others + 1);
  const closed = closePools(pools);
  last.leave();
  t.match(await sentLast, { code: "client_gone" });
  // Nothing is left to wait for.
  await closed;
});

t.test("a request cancelled while its connection is established gives its turn to the next one", async (t) => {
  const { upstream, proxy, pools } = await proxied(t, (socket) => socket.write(OK), { connections: 1 });
  const leaver = client();
  const first = failed(proxy.send(outgoing(upstream.origin), leaver));
  const second = proxy.send(outgoing(upstream.origin), client());
  await new Promise(setImmediate);
  leaver.leave();
  t.match(await first, { code: "client_gone" });
  t.equal((await whole(await second)).body.toString(), "ok");
  await closePools(pools);
});

/** A client behind a proxy that takes the requests themselves. */
async function forwarded(t: Test, answer: (socket: Socket, request: RawRequest) => unknown, userinfo = "") {
  const proxy = await rawUpstream(answer);
  const environment = { HTTP_PROXY: `http://${userinfo}${proxy.origin.host}`, NO_PROXY: "127.0.0.1" };
  const pools = new Pools({ environment });
  t.teardown(async () => {
    void closePools(pools);
    await proxy.close();
  });
  return { proxy, upstream: new UpstreamProxy(pools), origin: new URL("http://provider.test:8080") };
}

t.test("over http a proxy gets the complete address, byte for byte; NO_PROXY is obeyed", async (t) => {
  const heads: string[] = [];
  const { upstream, origin } = await forwarded(
    t,
    (socket, { head }) => {
      heads.push(head);
      socket.write(OK);
    },
    "me:secret@",
  );
  const path = "/a//b/../%2e?q=%20";
  const sent = outgoing(origin, { path, headers: ["proxy-authorization", "Basic bad"], body: [Buffer.from("x")] });
  t.equal((await whole(await upstream.send(sent, client()))).body.toString(), "ok");
  t.same(heads, [
    `POST http://provider.test:8080${path} HTTP/1.1\r\nhost: provider.test:8080\r\n` +
      `proxy-authorization: Basic ${Buffer.from("me:secret").toString("base64")}\r\n` +
      "connection: keep-alive\r\naccept-encoding: identity\r\ncontent-length: 1\r\n\r\n",
  ]);
  const direct = await proxied(t, (socket, { head }) => {
    t.match(head, /^POST \/v1\/things HTTP/);
    t.notMatch(head, /proxy-authorization/);
    socket.write(OK);
  });
  await whole(await upstream.send(outgoing(direct.upstream.origin), client()));
  t.equal(direct.upstream.connections, 1);
});

t.test("a proxy that requires authentication is an error; the provider's own response passes", async (t) => {
  const { proxy, upstream, origin } = await forwarded(t, (socket, { head }) =>
    socket.write(`HTTP/1.1 ${head.includes("/ask") ? 407 : 502} x\r\ncontent-length: 0\r\n\r\n`),
  );
  const error = await failed(upstream.send(outgoing(origin, { path: "/ask" }), client()));
  t.match(error, { code: "upstream_unreachable", cause: { code: "PROXY_STATUS_407" } });
  t.match(error.message, /^The gateway's proxy answered 407/);
  t.match(String(error.cause), ` through the proxy ${proxy.origin.origin}`);
  const response = await upstream.send(outgoing(origin), client());
  t.equal(response.status, 502);
  await whole(response);
});

t.test("bodies of every kind pass through a proxy completely", async (t) => {
  const { upstream, origin } = await forwarded(t, async (socket, { head, body }) => {
    const length = /content-length: (\d+)/.exec(head)?.[1];
    const text = `${(await body).length} ${length} ${head.includes("transfer-encoding: chunked")}`;
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${text.length}\r\n\r\n${text}`);
  });
  async function* pieces() {
    yield Buffer.alloc(70_000);
    yield Buffer.alloc(70_000);
  }
  for (const [body, length, said] of [
    [undefined, undefined, "0 0 false"],
    [[Buffer.from("ab"), Buffer.from("c")], undefined, "3 3 false"],
    [[Buffer.alloc(70_000), Buffer.alloc(1)], undefined, "70001 70001 false"],
    [pieces(), 140_000, "140000 140000 false"],
    [pieces(), undefined, "140000 undefined true"],
  ] as const) {
    const response = await whole(await upstream.send(outgoing(origin, { body, length }), client()));
    t.equal(response.body.toString(), said);
  }
});

t.test(
  "a connection over TLS is kept ready for a while after the last request, and nothing is sent on it",
  async (t) => {
    setDefaultCACertificates([certificate]);
    const open = new Set<TLSSocket>();
    let made = 0;
    let requests = 0;
    const { origin } = await secured(t, (socket) => {
      made++;
      open.add(socket);
      socket.on("error", () => {}).once("close", () => open.delete(socket));
      socket.on("data", () => {
        requests++;
        socket.write(OK);
      });
    });
    const pools = new Pools({ environment: {}, keepAlive: 100 });
    t.teardown(() => void closePools(pools));
    const proxy = new UpstreamProxy(pools);
    const ask = async (warm: number, credentialId: string) =>
      whole(await proxy.send(outgoing(origin, { warm, credentialId }), client()));
    await ask(0, "cold");
    await until(() => open.size === 0, "the end of an idle connection");
    t.equal(made, 1);
    await ask(60_000, "warm");
    await until(() => made >= 4, "two more behind the first");
    t.equal(requests, 2);
    await until(() => open.size === 1);
    await ask(60_000, "warm");
    t.equal(requests, 3);
    await closePools(pools);
    await until(() => open.size === 0, "no connection behind the end");
    const after = made;
    await new Promise((resolve) => setTimeout(resolve, 250));
    t.equal(made, after);
  },
);

t.test(
  "a connection over TLS is kept where a response arrives in the turn in which its request was sent",
  async (t) => {
    setDefaultCACertificates([certificate]);
    const provider = new Worker(
      `const { parentPort, workerData } = require("node:worker_threads");
    let connections = 0;
    const server = require("node:tls").createServer(workerData.tls, (socket) => {
      parentPort.postMessage(++connections);
      socket.on("error", () => {}).on("data", () => socket.write(workerData.response));
    }).listen(0, "127.0.0.1", () => parentPort.postMessage(server.address().port));`,
      { eval: true, workerData: { tls: { cert: certificate, key }, response: OK } },
    );
    t.teardown(() => provider.terminate());
    const [port] = (await once(provider, "message")) as [number];
    let connections = 0;
    provider.on("message", (count: number) => (connections = count));
    const pools = new Pools({ environment: {} });
    t.teardown(() => void closePools(pools));
    const proxy = new UpstreamProxy(pools);
    const origin = new URL(`https://127.0.0.1:${port}`);
    for (let i = 0; i < 5; i++) {
      // The event loop is busy, after the request was sent, until the response has arrived.
      const block = () => {
        for (const end = performance.now() + 50; performance.now() < end; );
      };
      const onStart = () => void process.nextTick(block);
      const { body } = await whole(await proxy.send(outgoing(origin, { onStart }), client()));
      t.equal(body.toString(), "ok");
    }
    t.equal(connections, 1);
  },
);

t.test("one idle connection over TLS is ready while others are in use", async (t) => {
  setDefaultCACertificates([certificate]);
  const sockets: TLSSocket[] = [];
  const asked: number[] = [];
  const { origin } = await secured(t, (socket) => {
    const number = sockets.push(socket);
    socket.on("error", () => {}).on("data", () => asked.push(number));
  });
  const pools = new Pools({ environment: {} });
  t.teardown(() => void closePools(pools));
  const proxy = new UpstreamProxy(pools);
  const ask = async () => whole(await proxy.send(outgoing(origin, { warm: 60_000 }), client()));
  const first = ask();
  await until(() => asked.length === 1 && sockets.length === 2, "a second connection");
  const second = ask();
  await until(() => asked.length === 2 && sockets.length === 3, "a third one");
  t.same(asked, [1, 2], "the second request is sent on the one that was ready");
  for (const number of asked) sockets[number - 1]?.write(OK);
  await Promise.all([first, second]);
  t.equal(sockets.length, 3);
});

t.test("no connection is kept ready after its time, for a provider that keeps none, or without TLS", async (t) => {
  setDefaultCACertificates([certificate]);
  let made = 0;
  let open = 0;
  const { origin } = await secured(t, (socket) => {
    made++;
    open++;
    socket.on("error", () => {}).once("close", () => open--);
    socket.on("data", () => socket.write(OK));
    if (made > 3) socket.end();
  });
  // At once is before half of that has passed, which a handshake beside other programs takes too.
  const pools = new Pools({ environment: {}, keepAlive: 600 });
  t.teardown(() => void closePools(pools));
  const proxy = new UpstreamProxy(pools);
  const ask = async (warm: number, to = origin) =>
    whole(await proxy.send(outgoing(to, { warm, credentialId: String(warm) }), client()));
  await ask(500);
  await until(() => open === 0);
  t.equal(made, 2, "one for the request, and one that was ready beside it");
  await ask(60_000);
  await until(() => made === 4 && open === 0, "one that is closed at once");
  await new Promise((resolve) => setTimeout(resolve, 300));
  t.equal(made, 4);
  const { upstream } = await proxied(t, (socket) => socket.write(OK));
  await ask(60_000, upstream.origin);
  await until(() => upstream.open === 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal(upstream.connections, 1);
});
