import { once } from "node:events";
import { type AddressInfo, createServer as createTcpServer, type LookupFunction } from "node:net";
import { Readable } from "node:stream";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { type Timeouts } from "../../src/core/marketplace.ts";
import { Pools } from "../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import type { OutgoingRequest } from "../../src/upstream/request.ts";
import { afterHearing } from "../support/patience.ts";
import { closePools, proxied } from "../support/proxied.ts";
import { until } from "../support/until.ts";
import {
  CHUNKED,
  client,
  delayedLookup,
  failed,
  httpUpstream,
  OK,
  outgoing,
  type Script,
  whole,
} from "../support/upstream.ts";

const limits = (some: Partial<Timeouts>): Timeouts => ({ connect: 0, first_byte: 0, idle: 0, total: 0, ...some });

t.test("the way in which an upstream breaks determines the error", async (t) => {
  const before: Record<string, Script> = {
    "FIN before the head": (socket) => socket.end(),
    "reset before the head": (socket) => socket.resetAndDestroy(),
    "FIN in the middle of the head": (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-"),
  };
  for (const [name, script] of Object.entries(before)) {
    const { upstream, proxy } = await proxied(t, script);
    t.match(await failed(proxy.send(outgoing(upstream.origin), client())), { code: "upstream_failed" }, name);
  }
  const later: Record<string, Script> = {
    "FIN in the middle of a chunk": (socket) => socket.end(`${CHUNKED}a\r\n12345`),
    "FIN between chunks": (socket) => socket.end(`${CHUNKED}5\r\n12345\r\n`),
    "FIN short of content-length": (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345"),
    "FIN short, said to be the last": (socket) =>
      socket.end("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 9\r\n\r\n12345"),
    "garbage for a chunk size": (socket) => socket.write(`${CHUNKED}5\r\n12345\r\nzz\r\n`),
    "reset in the middle": (socket) =>
      socket.write(`${CHUNKED}5\r\n12345\r\n`, () => afterHearing(20, () => socket.resetAndDestroy())),
  };
  for (const [name, script] of Object.entries(later)) {
    const { upstream, proxy } = await proxied(t, script);
    const answer = await proxy.send(outgoing(upstream.origin), client());
    const { body, error, calls } = await whole(answer);
    t.match(error, { code: "upstream_truncated", cause: { host: upstream.origin.host } }, name);
    t.equal(body.toString(), "12345", `${name}: the received bytes are passed on`);
    t.equal(calls, 1);
  }
});

t.test("a response that ends with its connection is complete", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.end("HTTP/1.0 200 OK\r\n\r\nto the end"));
  const { body, error } = await whole(await proxy.send(outgoing(upstream.origin), client()));
  t.equal(body.toString(), "to the end");
  t.equal(error, undefined);
});

t.test("JSON that ends with its connection is complete only if its last value is", async (t) => {
  const head = "HTTP/1.0 200 OK\r\ncontent-type: application/json; charset=utf-8\r\n\r\n";
  for (const [text, error] of [
    ['{"a":[{"b":"}"}]}\n', undefined],
    ["", undefined],
    ['{"a" 1}', undefined],
    ['{"a":[{"b":1}]', "upstream_truncated"],
    ['{"a":"b', "upstream_truncated"],
    [`{"logprobs":[${'{"token":"a"},'.repeat(60_000)}`, "upstream_truncated"],
    [`{"a":${"[".repeat(500)}`, "upstream_truncated"],
  ] as const) {
    const { upstream, proxy } = await proxied(t, (socket) => socket.end(head + text));
    const ended = await whole(await proxy.send(outgoing(upstream.origin), client()));
    t.equal(ended.body.toString(), text);
    t.equal(ended.error?.code, error, text.slice(0, 40));
  }
});

t.test("data that arrived before anybody read comes first, the failure after it", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.end(`${CHUNKED}5\r\n12345\r\n5\r\n67890\r\n`));
  const answer = await proxy.send(outgoing(upstream.origin), client());
  await new Promise((resolve) => setTimeout(resolve, 30));
  const { body, error } = await whole(answer);
  t.equal(body.toString(), "1234567890");
  t.match(error, { code: "upstream_truncated" });
});

t.test("a provider that cannot be reached", async (t) => {
  const { upstream, proxy } = await proxied(t, () => {});
  const { origin } = upstream;
  await upstream.close();
  upstream.close = async () => {};
  t.match(await failed(proxy.send(outgoing(origin), client())), {
    code: "upstream_unreachable",
    cause: { code: "ECONNREFUSED", host: origin.host },
  });
  const unknown: LookupFunction = (_name, _options, done) =>
    done(Object.assign(new Error(), { code: "ENOTFOUND" }), []);
  const pools = new Pools({ environment: {}, lookup: unknown });
  t.teardown(() => void closePools(pools));
  t.match(
    await failed(new UpstreamProxy(pools).send(outgoing(new URL(`http://provider.test:${origin.port}`)), client())),
    {
      code: "upstream_unreachable",
      cause: { code: "ENOTFOUND" },
    },
  );
});

t.test("a provider without TLS is unreachable by https", async (t) => {
  const plain = createTcpServer((socket) => socket.on("error", () => {}).end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  plain.listen(0, "127.0.0.1");
  await once(plain, "listening");
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    void closePools(pools);
    plain.close();
  });
  const origin = new URL(`https://127.0.0.1:${(plain.address() as AddressInfo).port}`);
  t.match(await failed(new UpstreamProxy(pools).send(outgoing(origin), client())), { code: "upstream_unreachable" });
});

t.test("each timeout ends the attempt and is named", async (t) => {
  const held = delayedLookup();
  const { upstream, proxy } = await proxied(t, () => {}, { lookup: held.lookup });
  const connect = proxy.send(outgoing(held.origin(upstream.origin), { timeouts: limits({ connect: 30 }) }), client());
  t.match(await failed(connect), {
    code: "upstream_unreachable",
    message: /^No connection to the provider could be made within 30 ms\.$/,
    cause: { code: "connect_timeout" },
  });
  held.go();

  const first = proxy.send(outgoing(upstream.origin, { timeouts: limits({ first_byte: 30 }) }), client());
  t.match(await failed(first), {
    code: "upstream_timeout",
    message: "The provider did not begin to answer within 30 ms.",
    cause: { code: "first_byte_timeout" },
  });

  const silent = await proxied(t, (socket) => socket.write(`${CHUNKED}5\r\n12345\r\n`));
  const idle = await silent.proxy.send(outgoing(silent.upstream.origin, { timeouts: limits({ idle: 30 }) }), client());
  const idled = await whole(idle);
  t.equal(idled.body.toString(), "12345");
  t.match(idled.error, {
    code: "upstream_timeout",
    message: "The provider sent nothing for 30 ms in the middle of its answer.",
    cause: { code: "idle_timeout" },
  });

  const endless = await proxied(t, (socket) => {
    socket.write(CHUNKED);
    const ticking = setInterval(() => socket.write("1\r\nx\r\n"), 5);
    socket.on("close", () => clearInterval(ticking));
  });
  // Time enough for the head to come.
  const timeouts = limits({ first_byte: 5000, idle: 5000, total: 500 });
  const total = await endless.proxy.send(outgoing(endless.upstream.origin, { timeouts }), client());
  t.match((await whole(total)).error, {
    code: "upstream_timeout",
    message: "The provider's answer was not complete after 500 ms.",
    cause: { code: "total_timeout" },
  });
  const waiting = silent.proxy.send(outgoing(upstream.origin, { timeouts: limits({ total: 30 }) }), client());
  t.match(await failed(waiting), { cause: { code: "total_timeout" } });
});

t.test("the time of a request is never over early, as timers of whole milliseconds would have it", async (t) => {
  const { upstream, proxy } = await proxied(t, () => {});
  const early: number[] = [];
  for (let i = 0; i < 30; i++) {
    const blockedUntil = performance.now() + i / 30;
    while (performance.now() < blockedUntil);
    const sentAt = performance.now();
    await failed(proxy.send(outgoing(upstream.origin, { timeouts: limits({ total: 10 }) }), client()));
    const took = performance.now() - sentAt;
    if (took < 10) early.push(took);
  }
  t.same(early, []);
});

t.test("a timer that is set again for the rest of a request's time is not set for less than none", async (t) => {
  const { upstream, proxy } = await proxied(t, () => {});
  const warnings: string[] = [];
  const hear = ({ name }: Error) => warnings.push(name);
  process.on("warning", hear);
  t.teardown(() => process.off("warning", hear));
  // Each look at the clock is later than the one before, as where the process waits for a core in between.
  const now = performance.now.bind(performance);
  let looks = 0;
  t.intercept(performance, "now", { value: () => now() + looks++ / 5 });
  for (let i = 0; i < 10; i++)
    await failed(proxy.send(outgoing(upstream.origin, { timeouts: limits({ total: 10 }) }), client()));
  await new Promise(setImmediate);
  t.same(warnings, []);
});

t.test("chunks that keep arriving reset the idle timeout", async (t) => {
  const { upstream, proxy } = await proxied(t, async (socket) => {
    socket.write(CHUNKED);
    for (let i = 0; i < 45; i++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      socket.write("1\r\nx\r\n");
    }
    socket.write("0\r\n\r\n");
  });
  const answer = await proxy.send(outgoing(upstream.origin, { timeouts: limits({ idle: 400 }) }), client());
  t.same(await whole(answer), { body: Buffer.from("x".repeat(45)), calls: 1 });
});

t.test("idle time while nobody reads is not the provider's", async (t) => {
  let more: () => void = () => {};
  const { upstream, proxy } = await proxied(t, (socket) => {
    socket.write(`${CHUNKED}5\r\n12345\r\n`);
    more = () => socket.write("5\r\n67890\r\n");
  });
  const idle = 400;
  const answer = await proxy.send(outgoing(upstream.origin, { timeouts: limits({ idle }) }), client());
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
  await new Promise((resolve) => setTimeout(resolve, 1.5 * idle));
  t.same([got, error], [["12345"], undefined]);
  answer.resume();
  more();
  await until(() => got.length === 2, "the rest");
  await new Promise((resolve) => setTimeout(resolve, 1.5 * idle));
  t.same(got, ["12345", "67890"]);
  t.equal(error, undefined);
  answer.resume();
  await until(() => error !== undefined, "the idle limit, which runs again");
  t.match(error, { cause: { code: "idle_timeout" } });
});

t.test("a connection is reused after a complete response, read or not; never after a broken one", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket, { head, nth }) => {
    if (head.startsWith("POST /cut")) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345");
    else socket.write(`HTTP/1.1 200 OK\r\nx-nth: ${nth}\r\ncontent-length: 2\r\n\r\nok`);
  });
  const send = (path: string) => proxy.send(outgoing(upstream.origin, { path }), client());
  await whole(await send("/a"));
  const unread = await send("/b");
  await new Promise((resolve) => setTimeout(resolve, 20));
  unread.destroy();
  await whole(await send("/c"));
  t.equal(upstream.connections, 1);
  (await send("/cut")).destroy();
  const after = await send("/d");
  t.same(after.headers.lines, ["x-nth", "1", "content-length", "2"]);
  await whole(after);
  t.equal(upstream.connections, 2);
});

t.test("bytes without a request make a connection unusable", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.write(`${OK}HTTP/1.1 200 OK\r\n\r\nsmuggled`));
  for (let i = 1; i <= 3; i++) {
    const { body } = await whole(await proxy.send(outgoing(upstream.origin), client()));
    t.equal(body.toString(), "ok");
    await until(() => upstream.connections === i);
  }
});

t.test("different credentials and origins never share a connection", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.write(OK));
  for (const credentialId of ["one", "two", "one", "two"]) {
    await whole(await proxy.send(outgoing(upstream.origin, { credentialId }), client()));
  }
  t.equal(upstream.connections, 2);
});

t.test("on a reused connection that turns out closed only a repeatable request is sent again, once", async (t) => {
  for (const repeatable of [true, false]) {
    const seen: [connection: number, nth: number, body: string][] = [];
    const { upstream, proxy } = await proxied(t, async (socket, request) => {
      seen.push([request.connection, request.nth, (await request.body).toString()]);
      if (request.nth === 1) socket.write(OK);
      else socket.resetAndDestroy();
    });
    const send = (text: string) =>
      proxy.send(outgoing(upstream.origin, { body: [Buffer.from(text), Buffer.from("!")], repeatable }), client());
    await whole(await send("warm"));
    if (repeatable) await whole(await send("again"));
    else t.match(await failed(send("again")), { code: "upstream_failed", status: 502 });
    const expected = [
      [1, 1, "warm!"],
      [1, 2, "again!"],
    ];
    t.same(seen, repeatable ? [...expected, [2, 1, "again!"]] : expected);
  }
});

t.test("a request that was to be repeated has reached its provider, also where that takes no connection", async (t) => {
  for (const [again, code] of [
    [(done: (error: Error) => void) => done(Object.assign(new Error(), { code: "ECONNREFUSED" })), "ECONNREFUSED"],
    [() => {}, "connect_timeout"],
  ] as const) {
    let lookups = 0;
    const lookup: LookupFunction = (_name, _options, done) => {
      if (lookups++ === 0) done(null, [{ address: "127.0.0.1", family: 4 }]);
      else again((error) => done(error, []));
    };
    const script: Script = (socket, { nth }) => (nth === 1 ? socket.write(OK) : socket.resetAndDestroy());
    const { upstream, proxy } = await proxied(t, script, { lookup });
    const origin = new URL(`http://provider.test:${upstream.origin.port}`);
    const send = () => proxy.send(outgoing(origin, { repeatable: true, timeouts: limits({ connect: 200 }) }), client());
    await whole(await send());
    t.match(await failed(send()), { code: "upstream_failed", cause: { code } }, code);
    t.equal(lookups, 2);
  }
});

t.test("unexpected interim responses are skipped", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => {
    for (const piece of ["HTTP/1.1 100 Continue\r\n\r", "\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", OK])
      socket.write(piece);
  });
  for (let i = 0; i < 2; i++) {
    const answer = await proxy.send(outgoing(upstream.origin), client());
    t.equal(answer.status, 200);
    t.same(await whole(answer), { body: Buffer.from("ok"), calls: 1 });
  }
  t.equal(upstream.connections, 1);
});

t.test("nothing is repeated on a new connection, after a byte of a response, or with a streamed body", async (t) => {
  const { upstream, proxy } = await proxied(t, async (socket, { head, body, nth }) => {
    await body;
    if (nth === 1 && head.startsWith("POST /fresh")) socket.resetAndDestroy();
    else if (nth === 1) socket.write(OK);
    else if (head.startsWith("POST /begun")) socket.end("HTTP/1.1 200");
    else socket.resetAndDestroy();
  });
  const send = (path: string, body?: OutgoingRequest["body"]) =>
    proxy.send(outgoing(upstream.origin, { path, body, repeatable: true }), client());
  t.match(await failed(send("/fresh")), { code: "upstream_failed" });
  t.equal(upstream.connections, 1);
  await whole(await send("/warm"));
  t.match(await failed(send("/begun")), { code: "upstream_failed" });
  t.equal(upstream.connections, 2);
  await whole(await send("/warm"));
  t.match(await failed(send("/stream", Readable.from([Buffer.from("x")]))), { code: "upstream_failed" });
  t.equal(upstream.connections, 3);
});

t.test("the sender is told whether its connection was opened for it", async (t) => {
  const upstream = await httpUpstream((_, reply) => reply.end("ok"));
  const pools = new Pools({ environment: {} });
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  const proxy = new UpstreamProxy(pools);
  const heard: boolean[] = [];
  for (let n = 0; n < 2; n++) {
    const onStart = (made: boolean) => heard.push(made);
    await whole(await proxy.send(outgoing(upstream.origin, { onStart }), client()));
  }
  t.same(heard, [true, false]);
});
