import type { Socket } from "node:net";
import { Readable } from "node:stream";
import t from "tap";
import { GatewayError } from "../../src/core/errors.ts";
import { Pools } from "../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import { closePools, proxied } from "../support/proxied.ts";
import { client, httpUpstream, OK, outgoing, whole } from "../support/upstream.ts";

t.test(
  "a request without a body is sent as composed, with host and no other header of ours but accept-encoding",
  async (t) => {
    let head = "";
    const { upstream, proxy } = await proxied(t, (socket, request) => {
      head = request.head;
      socket.write(OK);
    });
    const headers = ["X-Mixed-Case", "Kept as is", "accept", "*/*"];
    const answer = await proxy.send(outgoing(upstream.origin, { method: "GET", headers }), client());
    t.equal((await whole(answer)).body.toString(), "ok");
    t.equal(
      head,
      `GET /v1/things HTTP/1.1\r\nhost: ${upstream.origin.host}\r\nconnection: keep-alive\r\n` +
        "X-Mixed-Case: Kept as is\r\naccept: */*\r\naccept-encoding: identity\r\n\r\n",
    );
  },
);

t.test("path and query are sent byte for byte", async (t) => {
  const seen: string[] = [];
  const { upstream, proxy } = await proxied(t, (socket, request) => {
    seen.push(request.head.slice(0, request.head.indexOf("\r\n")));
    socket.write(OK);
  });
  const paths = [
    "/",
    "/v1//double///slashes/",
    "/v1/../up/./here",
    "/v1/%2e%2e/%2F%41%zz?q=%20+a&b=1&b=2&&=",
    "/v1/models/a:b@c~d!$'()*,;=?a?b?c",
    "/v1/back\\slash|pipe{brace}\"quote'?x=[1]^`",
    "/latin1/\xe9\xff",
    "/?",
    "/p?",
    "/fragment#stays?yes",
  ];
  for (const path of paths) {
    await whole(await proxy.send(outgoing(upstream.origin, { path }), client()));
  }
  t.same(
    seen,
    paths.map((path) => `POST ${path} HTTP/1.1`),
  );
});

t.test("an origin's own path is not prepended", async (t) => {
  let line = "";
  const { upstream, proxy } = await proxied(t, (socket, request) => {
    line = request.head.split("\r\n")[0] as string;
    socket.write(OK);
  });
  await whole(await proxy.send(outgoing(new URL("/v1/base?x=1", upstream.origin), { path: "/v2/y" }), client()));
  t.equal(line, "POST /v2/y HTTP/1.1");
});

t.test("bodies arrive complete, framed by their true length", async (t) => {
  const upstream = await httpUpstream();
  const pools = new Pools({ environment: {} });
  const proxy = new UpstreamProxy(pools);
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  const big = Buffer.alloc(1_500_000, "x");
  const cases: [name: string, pieces: Buffer[]][] = [
    ["none", []],
    ["empty", [Buffer.alloc(0)]],
    ["one", [Buffer.from("one")]],
    ["small pieces", [Buffer.from("a"), Buffer.alloc(0), Buffer.from("bc")]],
    ["large pieces", [big, Buffer.from("splice"), big.subarray(0, 70_000)]],
  ];
  for (const [name, body] of cases) {
    for (const method of ["POST", "DELETE"]) {
      await whole(await proxy.send(outgoing(upstream.origin, { method, body }), client()));
      const seen = upstream.seen.pop();
      const all = Buffer.concat(body);
      t.ok(seen?.body.equals(all), `${method} ${name}`);
      const length = valuesOf(seen?.rawHeaders ?? [], "content-length");
      t.same(length, method === "POST" || all.length > 0 ? [String(all.length)] : [], `${method} ${name}: one length`);
      t.same(valuesOf(seen?.rawHeaders ?? [], "transfer-encoding"), []);
    }
  }
});

t.test("a stream is sent in chunks, or with the length that was announced", async (t) => {
  const upstream = await httpUpstream();
  const pools = new Pools({ environment: {} });
  const proxy = new UpstreamProxy(pools);
  t.teardown(async () => {
    void closePools(pools);
    await upstream.close();
  });
  async function* pieces() {
    for (let i = 0; i < 20; i++) yield Buffer.alloc(10_000, 97 + i);
  }
  const all = Buffer.concat(await Array.fromAsync(pieces()));
  for (const length of [undefined, all.length]) {
    for (const body of [pieces(), Readable.from(pieces(), { objectMode: false })]) {
      await whole(await proxy.send(outgoing(upstream.origin, { method: "DELETE", body, length }), client()));
      const seen = upstream.seen.pop();
      t.ok(seen?.body.equals(all));
      t.same(valuesOf(seen?.rawHeaders ?? [], "content-length"), length === undefined ? [] : [String(length)]);
      t.same(valuesOf(seen?.rawHeaders ?? [], "transfer-encoding"), length === undefined ? ["chunked"] : []);
    }
  }
});

t.test("framing, hop-by-hop fields and host in the list are never sent", async (t) => {
  let head = "";
  const { upstream, proxy } = await proxied(t, (socket, request) => {
    head = request.head;
    socket.write(OK);
  });
  const headers = [
    ...["Host", "evil.test", "HOST", "evil.test", "Content-Length", "999", "Transfer-Encoding", "chunked"],
    ...["Expect", "100-continue", "Connection", "keep-alive, X-Named", "x-named", "secret", "Keep-Alive", "timeout=1"],
    ...["TE", "trailers", "Trailer", "x", "Upgrade", "websocket", "Proxy-Authorization", "Basic eA=="],
    ...["Accept-Encoding", "gzip, br", "x-kept", "1"],
  ];
  await whole(await proxy.send(outgoing(upstream.origin, { headers, body: [Buffer.from("{}")] }), client()));
  t.equal(
    head,
    `POST /v1/things HTTP/1.1\r\nhost: ${upstream.origin.host}\r\nconnection: keep-alive\r\nx-kept: 1\r\n` +
      "accept-encoding: identity\r\ncontent-length: 2\r\n\r\n",
  );
});

t.test("a header that could break out of its line is refused by name, and nothing is sent", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.write(OK));
  const bad: [string, string][] = [
    ["x-cr", "a\rb"],
    ["x-lf", "a\nx-injected: 1"],
    ["x-crlf", "a\r\n\r\nGET / HTTP/1.1"],
    ["x-nul", "a\0b"],
    ["x-wide", "caf\u{e9}\u{4e2d}"],
    ["x injected", "1"],
    ["x:y", "1"],
    ["x-new\r\nline", "1"],
    ["", "1"],
  ];
  for (const [name, value] of bad) {
    const sent = proxy.send(outgoing(upstream.origin, { headers: ["x-good", "1", name, value] }), client());
    await t.rejects(sent, { code: "internal", message: `The header ${JSON.stringify(name)} cannot be sent upstream.` });
  }
  for (const path of ["/a b", "/a\r\nx: y", "/\u{4e2d}", "no-slash"]) {
    await t.rejects(proxy.send(outgoing(upstream.origin, { path }), client()), { code: "internal" });
  }
  await t.rejects(proxy.send(outgoing(upstream.origin, { method: "GET /x\r\n" }), client()), { code: "internal" });
  t.equal(upstream.connections, 0);
});

t.test("the response's head arrives raw, without hop-by-hop fields and those that Connection names", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) =>
    socket.write(
      "HTTP/1.1 418 I'm a teapot\r\nConnection: close, X-Named\r\nKeep-Alive: timeout=5\r\nX-Named: 1\r\n" +
        "Set-Cookie: a=1\r\nset-cookie: b=2\r\nX-Empty:\r\nX-Latin: caf\xe9\r\nProxy-Authenticate: x\r\n" +
        "Trailer: x-end\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-end: gone\r\n\r\n",
      "latin1",
    ),
  );
  const answer = await proxy.send(outgoing(upstream.origin), client());
  t.equal(answer.status, 418);
  t.same(answer.headers.lines, ["Set-Cookie", "a=1", "set-cookie", "b=2", "X-Empty", "", "X-Latin", "caf\xe9"]);
  t.same(await whole(answer), { body: Buffer.from("ok"), calls: 1 });
});

t.test("content-length stays in the head", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) => socket.write(OK));
  const answer = await proxy.send(outgoing(upstream.origin), client());
  t.same(answer.headers.lines, ["content-length", "2"]);
  answer.destroy();
});

t.test("redirects are refused and not followed; 304 is an answer to a GET or HEAD alone", async (t) => {
  for (const status of [300, 301, 302, 303, 307, 308]) {
    for (const connection of ["keep-alive", "close"]) {
      const { upstream, proxy } = await proxied(t, (socket) =>
        socket.write(
          `HTTP/1.1 ${status} x\r\nconnection: ${connection}\r\nlocation: /key=secret\r\ncontent-length: 2\r\n\r\nno`,
        ),
      );
      const error = await proxy.send(outgoing(upstream.origin), client()).catch((error) => error);
      t.match(error, { code: "upstream_redirect", cause: { code: `STATUS_${status}`, host: upstream.origin.host } });
      t.equal(upstream.connections, 1);
    }
  }
  const { upstream, proxy } = await proxied(t, (socket) => socket.write("HTTP/1.1 304 x\r\netag: x\r\n\r\n"));
  for (const method of ["GET", "HEAD"]) {
    const answer = await proxy.send(outgoing(upstream.origin, { method }), client());
    t.equal(answer.status, 304);
    t.same(await whole(answer), { body: Buffer.alloc(0), calls: 1 });
  }
  const posted = proxy.send(outgoing(upstream.origin, { method: "POST" }), client());
  await t.rejects(posted, { code: "upstream_invalid", cause: { code: "STATUS_304" } });
});

t.test("interim responses are skipped", async (t) => {
  const { upstream, proxy } = await proxied(t, (socket) =>
    socket.write(`HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${OK}`),
  );
  const answer = await proxy.send(outgoing(upstream.origin), client());
  t.equal(answer.status, 200);
  t.same(answer.headers.lines, ["content-length", "2"]);
  t.equal((await whole(answer)).body.toString(), "ok");
});

t.test("an invalid HTTP response is upstream_invalid", async (t) => {
  const heads: Record<string, string> = {
    "not HTTP at all": "SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "an upgrade nobody asked for": "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "101 without an upgrade": `HTTP/1.1 101 Switching\r\n\r\n${OK}`,
    "interim answers without end": `${"HTTP/1.1 100 Continue\r\n\r\n".repeat(40)}${OK}`,
    "a head beyond 64 KiB": `HTTP/1.1 200 OK\r\nx-huge: ${"x".repeat(70_000)}\r\n\r\n`,
    "two different lengths": "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "length and chunked": "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a bare line feed in a name": "HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n",
    "an unknown content-encoding": "HTTP/1.1 200 OK\r\ncontent-encoding: rot13\r\n\r\n",
    "two content-encodings": "HTTP/1.1 200 OK\r\ncontent-encoding: gzip, br\r\n\r\n",
  };
  for (const [name, head] of Object.entries(heads)) {
    const { upstream, proxy } = await proxied(t, (socket) => socket.write(head));
    const error = await proxy.send(outgoing(upstream.origin), client()).catch((error) => error);
    t.match(error, { code: "upstream_invalid" }, name);
  }
});

t.test("errors contain a code and the provider's host, nothing of the request or the response", async (t) => {
  const secret = "sk-0123456789";
  const scripts: ((socket: Socket) => unknown)[] = [
    (socket) => socket.destroy(),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end(`HTTP/1.1 200 OK\r\n${secret}\r\n\r\n`),
    (socket) => socket.write(`HTTP/1.1 302 x\r\nlocation: /?key=${secret}\r\n\r\n`),
    (socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: ${secret}\r\n\r\n`),
  ];
  for (const script of scripts) {
    const { upstream, proxy } = await proxied(t, script);
    const headers = ["authorization", `Bearer ${secret}`];
    const sent = proxy.send(outgoing(upstream.origin, { headers, path: `/v1/x?key=${secret}` }), client());
    const error = await sent.catch((error) => error);
    t.ok(error instanceof GatewayError);
    for (let at = error; at instanceof Error; at = at.cause) {
      t.notMatch(JSON.stringify([at.message, at.stack, { ...at }]), secret);
    }
  }
});

function valuesOf(lines: string[], name: string): string[] {
  return lines.filter((_, i) => i % 2 === 1 && lines[i - 1]?.toLowerCase() === name);
}
