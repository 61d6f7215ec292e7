import { once } from "node:events";
import type { AddressInfo, Socket } from "node:net";
import { createServer, setDefaultCACertificates, type TLSSocket } from "node:tls";
import t, { type Test } from "tap";
import { Pools } from "../../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../../src/upstream/proxy.ts";
import { type ConnectProxy, connectProxy } from "../../support/connect-proxy.ts";
import { closePools } from "../../support/proxied.ts";
import { certificate, key } from "../../support/tls.ts";
import { until } from "../../support/until.ts";
import { client, failed, OK, outgoing, whole } from "../../support/upstream.ts";

/** A provider that speaks TLS, and what it saw: a script for each piece it reads. */
async function provider(t: Test, script: (socket: TLSSocket, text: string) => unknown) {
  const seen = { texts: [] as string[], sockets: [] as TLSSocket[] };
  const server = createServer({ cert: certificate, key, ALPNProtocols: ["h2", "http/1.1"] }, (socket) => {
    seen.sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => {
      seen.texts.push(bytes.toString("latin1"));
      script(socket, bytes.toString("latin1"));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  return { ...seen, origin: new URL(`https://provider.test:${(server.address() as AddressInfo).port}`) };
}

/** The gateway's client behind a proxy. @param userinfo credentials in the variable, with their @ */
function behind(t: Test, { address }: Pick<ConnectProxy, "address">, userinfo = ""): UpstreamProxy {
  const pools = new Pools({ environment: { HTTPS_PROXY: address.replace("://", `://${userinfo}`) } });
  t.teardown(() => void closePools(pools));
  return new UpstreamProxy(pools);
}

t.beforeEach(() => setDefaultCACertificates([certificate]));

for (const secure of [false, true])
  t.test(`https goes through a tunnel of ${secure ? "an https" : "an http"} proxy, which is kept open`, async (t) => {
    const size = 5 << 20;
    const { origin, texts, sockets } = await provider(t, (socket, text) => {
      if (!text.startsWith("POST /large")) return socket.write(OK);
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      return socket.write(Buffer.alloc(size, "x"));
    });
    const proxy = await connectProxy(t, { secure });
    const upstream = behind(t, proxy, "me:s%3Acret@");
    t.equal((await whole(await upstream.send(outgoing(origin), client()))).body.toString(), "ok");
    const response = await upstream.send(outgoing(origin, { path: "/large" }), client());
    let read = 0;
    await new Promise<void>((end) =>
      response.read({
        chunk: (bytes) => {
          read += bytes.length;
          setImmediate(() => response.resume());
          return false;
        },
        end,
        fail: (error) => t.fail(error.message),
      }),
    );
    t.equal(read, size);
    const pair = Buffer.from("me:s:cret").toString("base64");
    t.same(proxy.heads, [
      `CONNECT ${origin.host} HTTP/1.1\r\nhost: ${origin.host}\r\nproxy-authorization: Basic ${pair}\r\n\r\n`,
    ]);
    t.equal(sockets.length, 1);
    t.match(sockets[0], { servername: "provider.test", alpnProtocol: "http/1.1" });
    t.match(texts[0], new RegExp(`^POST /v1/things HTTP/1.1\r\nhost: ${origin.host}\r\n`));
    t.notMatch(texts.join(""), /proxy-authorization/i, "the proxy's credentials are the proxy's");
  });

t.test(
  "a proxy that refuses makes the provider unreachable; the proxy is named, without its credentials",
  async (t) => {
    const { origin, texts } = await provider(t, () => t.fail("nothing was to be sent"));
    const answers: [answer: string | undefined, code: string, said: RegExp][] = [
      ["HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\r\n", "PROXY_STATUS_407", /407/],
      ["HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", "PROXY_STATUS_403", /403/],
      ["HTTP/1.1 204 No Content\r\n\r\n", "PROXY_STATUS_204", /204/],
      ["HTTP/1.1 302 Found\r\nlocation: http://a.test\r\n\r\n", "PROXY_STATUS_302", /302/],
      ["HTTP/1.0 503 x\r\n\r\n", "PROXY_STATUS_503", /503/],
      ["SSH-2.0-OpenSSH\r\n", "PROXY_RESPONSE_NOT_HTTP", /could not/],
      ["HTTP/1.1 200 OK\r\n\r\nhello", "PROXY_RESPONSE_FOLLOWED", /could not/],
      [undefined, "PROXY_CONNECTION_CLOSED", /could not/],
    ];
    for (const [answer, code, said] of answers) {
      const proxy = await connectProxy(t, {
        answer: (socket) => (answer === undefined ? socket.end() : socket.write(answer)),
      });
      const error = await failed(behind(t, proxy, "me:secret@").send(outgoing(origin), client()));
      t.match(error, { code: "upstream_unreachable", cause: { code, host: origin.host } }, code);
      t.match(error.message, said);
      t.notMatch(error.message, new URL(proxy.address).port, "clients do not read of the operator's network");
      t.match(String(error.cause), ` through the proxy ${proxy.address}`);
      t.notMatch(error.message + String(error.cause), /secret|me:/);
      await until(() => proxy.sockets.size === 0, "the end of the connection");
    }
    const nobody = await failed(behind(t, { address: "http://127.0.0.1:1" }).send(outgoing(origin), client()));
    t.match(nobody, { code: "upstream_unreachable", cause: { code: "PROXY_ECONNREFUSED" } });
    t.equal(nobody.message, "The gateway's proxy could not be reached.");
    t.match(String(nobody.cause), / through the proxy http:\/\/127\.0\.0\.1:1$/);
    t.same(texts, []);
  },
);

t.test(
  "a provider configured by IP address is requested by it, and its certificate must be valid for it",
  async (t) => {
    const { origin, sockets } = await provider(t, (socket) => socket.write(OK));
    const proxy = await connectProxy(t);
    const address = new URL(origin.href.replace("provider.test", "127.0.0.1"));
    const upstream = behind(t, proxy);
    t.equal((await whole(await upstream.send(outgoing(address), client()))).body.toString(), "ok");
    t.notOk((sockets[0] as { servername?: unknown }).servername);
    const other = new URL(origin.href.replace("provider.test", "other.test"));
    t.match(await failed(upstream.send(outgoing(other), client())), {
      code: "upstream_unreachable",
      cause: { code: "ERR_TLS_CERT_ALTNAME_INVALID" },
    });
  },
);

t.test("interim responses of a proxy are skipped", async (t) => {
  const { origin } = await provider(t, (socket) => socket.write(OK));
  const proxy = await connectProxy(t, {
    answer: (socket) => {
      socket.write("HTTP/1.1 100 Continue\r\n\r\n");
      return false;
    },
  });
  t.equal((await whole(await behind(t, proxy).send(outgoing(origin), client()))).body.toString(), "ok");
});

t.test("the connect timeout includes the proxy's time; a client that disconnects ends the attempt", async (t) => {
  const { origin } = await provider(t, () => t.fail("nothing was to be sent"));
  const proxy = await connectProxy(t, { answer: () => {} });
  const upstream = behind(t, proxy);
  const timeouts = { connect: 40, first_byte: 0, idle: 0, total: 0 };
  t.match(await failed(upstream.send(outgoing(origin, { timeouts }), client())), {
    code: "upstream_unreachable",
    cause: { code: "connect_timeout" },
  });
  const who = client();
  const sent = failed(upstream.send(outgoing(origin), who));
  await until(() => proxy.heads.length === 2);
  who.leave();
  t.match(await sent, { code: "client_gone" });
  await until(() => proxy.sockets.size === 0, "the end of both connections");
});

t.test("a certificate without a trusted authority is refused behind a proxy too", async (t) => {
  setDefaultCACertificates([]);
  const { origin } = await provider(t, () => t.fail("nothing was to be sent"));
  const error = await failed(behind(t, await connectProxy(t)).send(outgoing(origin), client()));
  t.match(error, { code: "upstream_unreachable", cause: { code: "DEPTH_ZERO_SELF_SIGNED_CERT" } });
});

t.test("an interruption in a tunnel is an interruption; a client's disconnect closes the tunnel", async (t) => {
  const { origin, sockets } = await provider(t, (socket, text) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345");
    if (text.startsWith("POST /cut")) setTimeout(() => socket.destroy(), 10);
  });
  const proxy = await connectProxy(t);
  const upstream = behind(t, proxy);
  const cut = await whole(await upstream.send(outgoing(origin, { path: "/cut" }), client()));
  t.equal(cut.body.toString(), "12345");
  t.match(cut.error, { code: "upstream_truncated" });
  const who = client();
  const response = await upstream.send(outgoing(origin), who);
  who.leave();
  t.match((await whole(response)).error, { code: "client_gone" });
  await until(() => sockets.every((socket) => socket.destroyed), "word at the provider");
  await until(() => proxy.sockets.size === 0);
});

t.test("a kept tunnel that turns out closed is replaced once; on a new one nothing is sent twice", async (t) => {
  const used = new Set<Socket>();
  const { origin, texts } = await provider(t, (socket, text) => {
    if (text.startsWith("POST /fresh") || used.has(socket)) socket.destroy();
    else socket.write(OK);
    used.add(socket);
  });
  const upstream = behind(t, await connectProxy(t));
  const send = (path: string) =>
    upstream.send(outgoing(origin, { path, body: [Buffer.from("x")], repeatable: true }), client());
  for (let i = 0; i < 2; i++) t.equal((await whole(await send("/kept"))).body.toString(), "ok");
  t.equal(texts.length, 3);
  await failed(send("/fresh"));
  texts.length = 0;
  t.match(await failed(send("/fresh")), { code: "upstream_failed" });
  t.equal(texts.length, 1);
});
