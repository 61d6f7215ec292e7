import { once } from "node:events";
import { request as requestHttp } from "node:http";
import { createServer, Agent as HttpsAgent, request } from "node:https";
import type { AddressInfo, LookupFunction } from "node:net";
import { setDefaultCACertificates } from "node:tls";
import t from "tap";
import { Agents } from "../../src/upstream/agents.ts";
import { Proxies } from "../../src/upstream/http1/proxies.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { certificate, key } from "../support/tls.ts";

t.test("an invalid proxy variable is a mistake of the operator's, named without its value", async (t) => {
  t.throws(() => new Agents({ https_proxy: "socks5://secret.test:1" }), {
    name: "FileError",
    message: /^HTTPS_PROXY is not the address of a proxy: http:\/\/HOST:PORT or https:\/\/HOST:PORT is wanted\.$/,
  });
});

t.test("an account has an agent for each scheme, and shares it with nobody", async (t) => {
  const agents = new Agents({});
  const one = agents.get(new URL("http://a.test/x"), "one");
  t.equal(agents.get(new URL("http://b.test/"), "one"), one);
  t.not(agents.get(new URL("http://a.test/x"), "two"), one);
  t.notOk(one instanceof HttpsAgent);
  t.ok(agents.get(new URL("https://a.test/"), "one") instanceof HttpsAgent);
  agents.close();
});

t.test("a request that cannot be sent again has a connection of its own", async (t) => {
  const agents = new Agents({});
  const target = new URL("http://a.test/");
  t.equal(Reflect.get(agents.get(target, "one"), "keepAlive"), true);
  t.equal(Reflect.get(agents.get(target, "one", 0, false), "keepAlive"), false);
  agents.close();
});

t.test("certificates are verified, whatever the environment says", async (t) => {
  // Tests of other files, which may share this process, trust the certificate.
  setDefaultCACertificates([]);
  const server = createServer({ cert: certificate, key }, ({ socket }) => socket.destroy()).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const agents = new Agents({});
  process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
  t.teardown(() => void delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"]);
  const target = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const sent = request(target, { agent: agents.get(target, "one") }).end();
  t.match(await once(sent, "error"), [{ code: "DEPTH_ZERO_SELF_SIGNED_CERT" }]);
  agents.close();
});

t.test(
  "whether a request goes through a proxy, these agents and the pools read from the environment alike",
  async (t) => {
    const proxy = await connectProxy(t, {
      answer: (socket) => socket.end("HTTP/1.1 502 x\r\ncontent-length: 0\r\n\r\n"),
    });
    const { address } = proxy;
    const withUser = address.replace("//", "//us%40er:password@");
    const here: LookupFunction = (_name, _options, done) => done(null, [{ address: "127.0.0.1", family: 4 }]);
    const hosts = ["http://127.0.0.1:1/", "https://127.0.0.1:1/", "https://llm.corp.test:1/", "http://[::1]:1/"];
    for (const environment of [
      { http_proxy: address },
      { https_proxy: address.slice("http://".length) },
      { https_proxy: withUser, http_proxy: "" },
      { HTTPS_PROXY: address, https_proxy: "" },
      ...[
        "corp.test",
        ".corp.test",
        "*.corp.test",
        "a.test llm.corp.test",
        "llm.corp.test:2",
        "[::1]",
        "127.0.0.1:1",
        "*",
      ].map((no_proxy) => ({ http_proxy: address, no_proxy })),
    ]) {
      const agents = new Agents(environment);
      const proxies = new Proxies(environment);
      for (const host of hosts) {
        const target = new URL(host);
        proxy.heads.length = 0;
        const send = target.protocol === "http:" ? requestHttp : request;
        const sent = send(target, { agent: agents.get(target, "one"), lookup: here });
        sent.on("response", (answer) => answer.resume());
        await new Promise((closed) =>
          sent
            .on("error", () => {})
            .on("close", closed)
            .end(),
        );
        const is = `${host} ${JSON.stringify(environment)}`;
        t.equal(proxy.heads.length > 0, proxies.for(target) !== undefined, is);
        if ("https_proxy" in environment && environment.https_proxy === withUser && target.protocol === "https:")
          t.match(proxy.heads[0], `Basic ${btoa("us@er:password")}\r\n`, is);
      }
      agents.close();
    }
  },
);
