import { once } from "node:events";
import { createServer, request } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type LookupFunction, type Socket } from "node:net";
import { Readable } from "node:stream";
import t, { type Test } from "tap";
import { GatewayError } from "../../src/errors.ts";
import type { Timeouts } from "../../src/exchange.ts";
import { Forward, type Outgoing, type Upstream } from "../../src/upstream/forward.ts";
import { type PoolOptions, Pools } from "../../src/upstream/pools.ts";
import { client, outgoing, type RawRequest, rawUpstream, until, whole } from "../support/upstream.ts";

type Script = (socket: Socket, request: RawRequest) => unknown;

async function setUp(t: Test, script: Script, options: PoolOptions = {}) {
  const upstream = await rawUpstream(script);
  const pools = new Pools({ environment: {}, ...options });
  const forward = new Forward(pools);
  t.teardown(async () => {
    await pools.destroy();
    await upstream.close();
  });
  return { upstream, forward };
}

const limits = (some: Partial<Timeouts>): Timeouts => ({ connect: 0, first_byte: 0, idle: 0, total: 0, ...some });
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const failed = (sent: Promise<Upstream>): Promise<GatewayError> =>
  sent.then(
    () => Promise.reject(new Error("it was answered")),
    (error) => error,
  );

/** A lookup that holds every connection back until it is let go. */
function heldLookup() {
  const { promise, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  const lookup: LookupFunction = (_name, _options, done) => {
    asked++;
    promise.then(() => done(null, [{ address: "127.0.0.1", family: 4 }]));
  };
  return { lookup, go: resolve, asked: () => asked };
}

/** The same upstream by a name that needs a lookup. */
function named(origin: URL): URL {
  return new URL(`http://provider.test:${origin.port}`);
}

t.test("how an upstream breaks decides the error", async (t) => {
  const before: Record<string, Script> = {
    "FIN before the head": (socket) => socket.end(),
    "reset before the head": (socket) => socket.resetAndDestroy(),
    "FIN in the middle of the head": (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-"),
  };
  for (const [name, script] of Object.entries(before)) {
    const { upstream, forward } = await setUp(t, script);
    t.match(await failed(forward.send(outgoing(upstream.origin), client())), { code: "upstream_failed" }, name);
  }
  const later: Record<string, Script> = {
    "FIN in the middle of a chunk": (socket) => socket.end(`${CHUNKED}a\r\n12345`),
    "FIN between chunks": (socket) => socket.end(`${CHUNKED}5\r\n12345\r\n`),
    "FIN short of content-length": (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345"),
    "FIN short, said to be the last": (socket) =>
      socket.end("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\n12345"),
    "garbage for a chunk size": (socket) => socket.write(`${CHUNKED}5\r\n12345\r\nzz\r\n`),
    "reset in the middle": (socket) =>
      socket.write(`${CHUNKED}5\r\n12345\r\n`, () => setTimeout(() => socket.resetAndDestroy(), 20)),
  };
  for (const [name, script] of Object.entries(later)) {
    const { upstream, forward } = await setUp(t, script);
    const answer = await forward.send(outgoing(upstream.origin), client());
    const { body, error, calls } = await whole(answer);
    t.match(error, { code: "upstream_truncated", cause: { host: upstream.origin.host } }, name);
    t.equal(body.toString(), "12345", `${name}: what came is handed over`);
    t.equal(calls, 1);
  }
});

t.test("an answer that ends with its connection is whole", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.end("HTTP/1.0 200 OK\r\n\r\nto the end"));
  const { body, error } = await whole(await forward.send(outgoing(upstream.origin), client()));
  t.equal(body.toString(), "to the end");
  t.equal(error, undefined);
});

t.test("what arrived before anybody read comes first, the failure after it", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.end(`${CHUNKED}5\r\n12345\r\n5\r\n67890\r\n`));
  const answer = await forward.send(outgoing(upstream.origin), client());
  await new Promise((resolve) => setTimeout(resolve, 30));
  const { body, error } = await whole(answer);
  t.equal(body.toString(), "1234567890");
  t.match(error, { code: "upstream_truncated" });
});

t.test("a provider that cannot be reached", async (t) => {
  const { upstream, forward } = await setUp(t, () => {});
  const { origin } = upstream;
  await upstream.close();
  upstream.close = async () => {};
  t.match(await failed(forward.send(outgoing(origin), client())), {
    code: "upstream_unreachable",
    cause: { code: "ECONNREFUSED", host: origin.host },
  });
  const unknown: LookupFunction = (_name, _options, done) =>
    done(Object.assign(new Error(), { code: "ENOTFOUND" }), []);
  const pools = new Pools({ environment: {}, lookup: unknown });
  t.teardown(() => pools.destroy());
  t.match(await failed(new Forward(pools).send(outgoing(named(origin)), client())), {
    code: "upstream_unreachable",
    cause: { code: "ENOTFOUND" },
  });
});

t.test("a provider that does not speak TLS is unreachable by https", async (t) => {
  const plain = createTcpServer((socket) => socket.on("error", () => {}).end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  plain.listen(0, "127.0.0.1");
  await once(plain, "listening");
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    await pools.destroy();
    plain.close();
  });
  const origin = new URL(`https://127.0.0.1:${(plain.address() as AddressInfo).port}`);
  t.match(await failed(new Forward(pools).send(outgoing(origin), client())), { code: "upstream_unreachable" });
});

t.test("each limit ends the attempt and says which it was", async (t) => {
  const held = heldLookup();
  const { upstream, forward } = await setUp(t, () => {}, { lookup: held.lookup });
  const connect = forward.send(outgoing(named(upstream.origin), { timeouts: limits({ connect: 30 }) }), client());
  t.match(await failed(connect), {
    code: "upstream_unreachable",
    message: /^No connection to the provider could be made within 30 ms\.$/,
    cause: { code: "connect_timeout" },
  });
  held.go();

  const first = forward.send(outgoing(upstream.origin, { timeouts: limits({ first_byte: 30 }) }), client());
  t.match(await failed(first), {
    code: "upstream_timeout",
    message: "The provider did not begin to answer within 30 ms.",
    cause: { code: "first_byte_timeout" },
  });

  const silent = await setUp(t, (socket) => socket.write(`${CHUNKED}5\r\n12345\r\n`));
  const idle = await silent.forward.send(
    outgoing(silent.upstream.origin, { timeouts: limits({ idle: 30 }) }),
    client(),
  );
  const idled = await whole(idle);
  t.equal(idled.body.toString(), "12345");
  t.match(idled.error, {
    code: "upstream_timeout",
    message: "The provider sent nothing for 30 ms in the middle of its answer.",
    cause: { code: "idle_timeout" },
  });

  const endless = await setUp(t, (socket) => {
    socket.write(CHUNKED);
    const ticking = setInterval(() => socket.write("1\r\nx\r\n"), 5);
    socket.on("close", () => clearInterval(ticking));
  });
  const timeouts = limits({ first_byte: 5000, idle: 5000, total: 60 });
  const total = await endless.forward.send(outgoing(endless.upstream.origin, { timeouts }), client());
  t.match((await whole(total)).error, {
    code: "upstream_timeout",
    message: "The provider's answer was not complete after 60 ms.",
    cause: { code: "total_timeout" },
  });
  const waiting = silent.forward.send(outgoing(upstream.origin, { timeouts: limits({ total: 30 }) }), client());
  t.match(await failed(waiting), { cause: { code: "total_timeout" } });
});

t.test("pieces that keep coming keep idle away", async (t) => {
  const { upstream, forward } = await setUp(t, async (socket) => {
    socket.write(CHUNKED);
    for (let i = 0; i < 45; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      socket.write("1\r\nx\r\n");
    }
    socket.write("0\r\n\r\n");
  });
  const answer = await forward.send(outgoing(upstream.origin, { timeouts: limits({ idle: 400 }) }), client());
  t.same(await whole(answer), { body: Buffer.from("x".repeat(45)), calls: 1 });
});

t.test("silence while nobody reads is not the provider's", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.write(`${CHUNKED}5\r\n12345\r\n5\r\n67890\r\n`));
  const answer = await forward.send(outgoing(upstream.origin, { timeouts: limits({ idle: 40 }) }), client());
  const got: string[] = [];
  let error: GatewayError | undefined;
  answer.read({
    chunk: (bytes) => {
      got.push(bytes.toString());
      return false;
    },
    end: () => t.fail("it never ended"),
    fail: (thrown) => {
      error = thrown;
    },
  });
  answer.resume();
  await new Promise((resolve) => setTimeout(resolve, 120));
  t.same(got, ["12345", "67890"]);
  t.equal(error, undefined);
  answer.resume();
  await until(() => error !== undefined, "the idle limit, which runs again");
  t.match(error, { cause: { code: "idle_timeout" } });
});

t.test("a client that leaves ends the attempt in every state", async (t) => {
  const state = async (
    t: Test,
    script: Script,
    changes: Partial<Outgoing>,
    act: (sent: Promise<Upstream>, leave: () => void, seen: { sockets: Socket[] }) => Promise<unknown>,
  ) => {
    const seen = { sockets: [] as Socket[] };
    const { upstream, forward } = await setUp(t, (socket, request) => {
      seen.sockets.push(socket);
      return script(socket, request);
    });
    const who = client();
    const sent = forward.send(outgoing(upstream.origin, changes), who);
    sent.catch(() => {});
    await act(sent, () => who.leave(), seen);
    await until(
      () => seen.sockets.length > 0 && seen.sockets.every((socket) => socket.destroyed),
      "the upstream's close",
    );
    t.equal(who.listeners, 0, "nobody listens any more");
  };

  await t.test("while the head is awaited", (t) =>
    state(
      t,
      () => {},
      {},
      async (sent, leave, seen) => {
        await until(() => seen.sockets.length === 1);
        leave();
        t.match(await failed(sent), { code: "client_gone" });
      },
    ),
  );

  await t.test("while a stream is being sent, which is destroyed", async (t) => {
    const body = new Readable({ read() {} });
    body.push("begin");
    await state(
      t,
      () => {},
      { body },
      async (sent, leave, seen) => {
        await until(() => seen.sockets.length === 1);
        leave();
        t.match(await failed(sent), { code: "client_gone" });
        t.ok(body.destroyed);
      },
    );
  });

  await t.test("while large pieces wait for a provider that does not read", (t) =>
    state(
      t,
      (socket) => socket.pause(),
      { body: Array.from({ length: 64 }, () => Buffer.alloc(1 << 20)) },
      async (sent, leave, seen) => {
        await until(() => seen.sockets.length === 1);
        leave();
        t.match(await failed(sent), { code: "client_gone" });
        seen.sockets[0]?.resume();
      },
    ),
  );

  await t.test("while the answer streams", (t) =>
    state(
      t,
      (socket) => socket.write(`${CHUNKED}2\r\nok\r\n`),
      {},
      async (sent, leave) => {
        const reading = whole(await sent);
        leave();
        const { error, calls } = await reading;
        t.match(error, { code: "client_gone" });
        t.equal(calls, 1);
      },
    ),
  );

  await t.test("while nobody reads the answer", (t) =>
    state(
      t,
      (socket) => socket.write(`${CHUNKED}2\r\nok\r\n`),
      {},
      async (sent, leave) => {
        const answer = await sent;
        leave();
        const { body, error } = await whole(answer);
        t.equal(body.length, 0);
        t.match(error, { code: "client_gone" });
      },
    ),
  );

  await t.test("while the answer is held back", (t) =>
    state(
      t,
      (socket) => socket.write(`${CHUNKED}2\r\nok\r\n`),
      {},
      async (sent, leave) => {
        const answer = await sent;
        const error = await new Promise((resolve) => {
          answer.read({
            chunk: () => {
              setImmediate(leave);
              return false;
            },
            end: () => resolve("ended"),
            fail: resolve,
          });
        });
        t.match(error, { code: "client_gone" });
      },
    ),
  );
});

t.test(
  "a client that leaves while its connection is being made is told at once; the connection is closed",
  async (t) => {
    const held = heldLookup();
    let requests = 0;
    const { upstream, forward } = await setUp(t, () => requests++, { lookup: held.lookup });
    const body = new Readable({ read() {} });
    const who = client();
    const sent = forward.send(outgoing(named(upstream.origin), { body }), who);
    await until(() => held.asked() === 1);
    who.leave();
    t.match(await failed(sent), { code: "client_gone" });
    t.ok(body.destroyed);
    held.go();
    await until(() => upstream.connections === 1);
    const other = forward.send(outgoing(named(upstream.origin)), who);
    await until(() => requests === 1, "the next request only");
    who.leave();
    await failed(other);
    t.equal(requests, 1);
  },
);

t.test("a client that leaves while its request waits for a free connection", async (t) => {
  const paths: string[] = [];
  const answers: (() => void)[] = [];
  const { upstream, forward } = await setUp(
    t,
    (socket, { head }) => {
      paths.push(head.split(" ")[1] as string);
      answers.push(() => socket.write(OK));
    },
    { connections: 1 },
  );
  const first = forward.send(outgoing(upstream.origin, { path: "/first" }), client());
  await until(() => paths.length === 1);
  const who = client();
  const second = forward.send(outgoing(upstream.origin, { path: "/second" }), who);
  who.leave();
  t.match(await failed(second), { code: "client_gone" });
  const third = forward.send(outgoing(upstream.origin, { path: "/third" }), client());
  answers.shift()?.();
  t.equal((await whole(await first)).body.toString(), "ok");
  await until(() => paths.length === 2);
  answers.shift()?.();
  t.equal((await whole(await third)).body.toString(), "ok");
  t.same(paths, ["/first", "/third"]);
});

t.test("a client that had left before is not connected for", async (t) => {
  const { upstream, forward } = await setUp(t, () => {});
  const gone = {
    onAbort(leave: () => void) {
      leave();
      return () => {};
    },
  };
  const body = new Readable({ read() {} });
  t.match(await failed(forward.send(outgoing(upstream.origin, { body }), gone)), { code: "client_gone" });
  t.ok(body.destroyed);
  t.equal(upstream.connections, 0);
});

t.test(
  "destroy closes the connection of an unfinished answer, tells the sink nothing, and may be repeated",
  async (t) => {
    const sockets: Socket[] = [];
    const { upstream, forward } = await setUp(t, (socket) => {
      sockets.push(socket);
      socket.write(`${CHUNKED}2\r\nok\r\n`);
    });
    const who = client();
    const answer = await forward.send(outgoing(upstream.origin), who);
    const told: string[] = [];
    answer.read({ chunk: () => true, end: () => told.push("end"), fail: () => told.push("fail") });
    answer.destroy();
    answer.destroy();
    await until(() => sockets[0]?.destroyed === true);
    answer.resume();
    t.same(told, []);
    t.equal(who.listeners, 0);
  },
);

t.test("a connection serves again after a whole answer, read or not; never after a broken one", async (t) => {
  const { upstream, forward } = await setUp(t, (socket, { head, nth }) => {
    if (head.startsWith("POST /cut")) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345");
    else socket.write(`HTTP/1.1 200 OK\r\nx-nth: ${nth}\r\ncontent-length: 2\r\n\r\nok`);
  });
  const send = (path: string) => forward.send(outgoing(upstream.origin, { path }), client());
  await whole(await send("/a"));
  const unread = await send("/b");
  await new Promise((resolve) => setTimeout(resolve, 20));
  unread.destroy();
  await whole(await send("/c"));
  t.equal(upstream.connections, 1);
  (await send("/cut")).destroy();
  const after = await send("/d");
  t.same(after.headers, ["x-nth", "1", "content-length", "2"]);
  await whole(after);
  t.equal(upstream.connections, 2);
});

t.test("bytes that nobody asked for make a connection unfit", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.write(`${OK}HTTP/1.1 200 OK\r\n\r\nsmuggled`));
  for (let i = 1; i <= 3; i++) {
    const { body } = await whole(await forward.send(outgoing(upstream.origin), client()));
    t.equal(body.toString(), "ok");
    await until(() => upstream.connections === i);
  }
});

t.test("credentials and origins never share a connection", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.write(OK));
  for (const credentialId of ["one", "two", "one", "two"]) {
    await whole(await forward.send(outgoing(upstream.origin, { credentialId }), client()));
  }
  t.equal(upstream.connections, 2);
});

t.test("a kept connection that proves closed is replaced once, unseen", async (t) => {
  const seen: [connection: number, nth: number, body: string][] = [];
  const { upstream, forward } = await setUp(t, async (socket, request) => {
    seen.push([request.connection, request.nth, (await request.body).toString()]);
    if (request.nth === 1) socket.write(OK);
    else socket.resetAndDestroy();
  });
  const body = [Buffer.from("again"), Buffer.from("!")];
  await whole(await forward.send(outgoing(upstream.origin, { body }), client()));
  await whole(await forward.send(outgoing(upstream.origin, { body }), client()));
  t.same(seen, [
    [1, 1, "again!"],
    [1, 2, "again!"],
    [2, 1, "again!"],
  ]);
});

t.test(
  "no request is repeated on a new connection, nor after a byte of an answer, nor with a streamed body",
  async (t) => {
    const { upstream, forward } = await setUp(t, async (socket, { head, body, nth }) => {
      await body;
      if (nth === 1 && head.startsWith("POST /fresh")) socket.resetAndDestroy();
      else if (nth === 1) socket.write(OK);
      else if (head.startsWith("POST /begun")) socket.end("HTTP/1.1 200");
      else socket.resetAndDestroy();
    });
    const send = (path: string, body?: Outgoing["body"]) =>
      forward.send(outgoing(upstream.origin, { path, body }), client());
    t.match(await failed(send("/fresh")), { code: "upstream_failed" });
    t.equal(upstream.connections, 1);
    await whole(await send("/warm"));
    t.match(await failed(send("/begun")), { code: "upstream_failed" });
    t.equal(upstream.connections, 2);
    await whole(await send("/warm"));
    t.match(await failed(send("/stream", Readable.from([Buffer.from("x")]))), { code: "upstream_failed" });
    t.equal(upstream.connections, 3);
  },
);

t.test("a reader that does not keep up stops the provider, and loses nothing", async (t) => {
  const size = 48 << 20;
  let written = 0;
  const { upstream, forward } = await setUp(t, async (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
    const piece = Buffer.alloc(1 << 16, "x");
    while (written < size && !socket.destroyed) {
      written += piece.length;
      if (!socket.write(piece)) await once(socket, "drain").catch(() => {});
    }
  });
  const settled = async () => {
    for (let before = -1; before !== written; ) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
  };
  const answer = await forward.send(outgoing(upstream.origin), client());
  await settled();
  t.ok(written < size / 2, `unread: the provider stopped at ${written} of ${size}`);

  let read = 0;
  let ended = false;
  let held = false;
  answer.read({
    chunk: (bytes) => {
      t.notOk(held, "nothing comes while held");
      read += bytes.length;
      held = read >= 1 << 20 && read < 2 << 20;
      return !held;
    },
    end: () => {
      ended = true;
    },
    fail: (error) => t.fail(error.message),
  });
  await until(() => held);
  await settled();
  t.ok(written < size / 2, `held: the provider stopped at ${written} of ${size}`);
  while (read < 2 << 20) {
    held = false;
    answer.resume();
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await until(() => ended);
  t.equal(read, size);
});

t.test("a provider that does not keep up stops the reading of a streamed body", async (t) => {
  const size = 48 << 20;
  let produced = 0;
  const sockets: Socket[] = [];
  const { upstream, forward } = await setUp(t, (socket) => sockets.push(socket.pause()));
  async function* pieces() {
    for (; produced < size; produced += 1 << 16) yield Buffer.alloc(1 << 16);
  }
  const who = client();
  const sent = forward.send(outgoing(upstream.origin, { body: pieces(), length: size }), who);
  await until(() => sockets.length === 1);
  for (let before = -1; before !== produced; ) {
    before = produced;
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  t.ok(produced < size / 2, `stopped at ${produced} of ${size}`);
  who.leave();
  t.match(await failed(sent), { code: "client_gone" });
  sockets[0]?.resume();
});

t.test("a streamed body that fails ends the attempt", async (t) => {
  const sockets: Socket[] = [];
  const { upstream, forward } = await setUp(t, (socket) => sockets.push(socket));
  for (const [thrown, code] of [
    [new GatewayError("body_too_large"), "body_too_large"],
    [new Error("ECONNRESET"), "client_gone"],
  ] as const) {
    async function* pieces() {
      yield Buffer.from("begin");
      await until(() => sockets.length > 0);
      throw thrown;
    }
    t.match(await failed(forward.send(outgoing(upstream.origin, { body: pieces() }), client())), { code });
    await until(() => sockets.every((socket) => socket.destroyed));
    sockets.length = 0;
  }
  const short = forward.send(
    outgoing(upstream.origin, { body: Readable.from([Buffer.from("x")]), length: 5 }),
    client(),
  );
  t.match(await failed(short), { code: "bad_request" });
});

t.test("an early answer is taken although the body was not read to its end", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) =>
    socket.write("HTTP/1.1 413 x\r\ncontent-length: 4\r\n\r\nmuch"),
  );
  const body = new Readable({ read() {} });
  body.push("begin");
  const answer = await forward.send(outgoing(upstream.origin, { body }), client());
  t.equal(answer.status, 413);
  t.equal((await whole(answer)).body.toString(), "much");
  t.ok(body.destroyed);
});

t.test("a client's own socket survives the failure of what its body was sent to", async (t) => {
  const { upstream, forward } = await setUp(t, (socket) => socket.resetAndDestroy());
  const front = createServer(async (message, reply) => {
    const error = await failed(forward.send(outgoing(upstream.origin, { body: message }), client()));
    reply.statusCode = error.status;
    reply.end(error.code);
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  t.teardown(() => {
    front.closeAllConnections();
    front.close();
  });
  const asking = request({ port: (front.address() as AddressInfo).port, method: "POST" });
  asking.on("error", () => {});
  asking.write("a first piece of more to come");
  const [reply] = await once(asking, "response");
  t.equal(reply.statusCode, 502);
  t.equal((await Array.fromAsync(reply)).join(""), "upstream_failed");
  asking.destroy();
});
