import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { mock } from "node:test";
import { createServer as createTlsServer, setDefaultCACertificates } from "node:tls";
import t, { type Test } from "tap";
import type { GatewayError } from "../../src/core/errors.ts";
import type { AbortListener, ActiveResponse } from "../../src/core/exchange.ts";
import type { Timeouts } from "../../src/core/marketplace.ts";
import { Redactor } from "../../src/core/redactor.ts";
import { ServerRequest } from "../../src/downstream/server-request.ts";
import { Agents } from "../../src/upstream/agents.ts";
import { Pools } from "../../src/upstream/http1/pools.ts";
import type { PassObserver } from "../../src/upstream/pass.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { afterHearing } from "../support/patience.ts";
import { send } from "../support/raw.ts";
import { certificate, key } from "../support/tls.ts";
import { turnCounter } from "../support/turns.ts";
import { until } from "../support/until.ts";
import { CHUNKED, OK, rawUpstream, type Script } from "../support/upstream.ts";

const CREDENTIAL = "a-credential-0123456789";

/** How a request ended for the gateway: undefined for well. */
type End = string | undefined;

/** What was seen of the bytes. */
class Count implements PassObserver {
  onRequestEnd(): void {}

  readonly redactor = new Redactor([CREDENTIAL]);
  static sent = 0;
  static received = 0;
  onRequestBody(bytes: Buffer) {
    Count.sent += bytes.length;
  }
  onResponseHead(_status: number, rawHeaders: readonly string[]) {
    const headers: Record<string, string> = {};
    for (let i = 0; i < rawHeaders.length; i += 2)
      if (/^(?:content-(?:length|type)|etag)$/i.test(rawHeaders[i] as string))
        headers[(rawHeaders[i] as string).toLowerCase()] = rawHeaders[i + 1] as string;
    return headers;
  }
  onErrorBody() {
    return {};
  }
  onResponseBody(bytes: Buffer) {
    Count.received += bytes.length;
    return bytes.includes("[DONE]");
  }
  static response: ActiveResponse | undefined;
  onStart(_fail: unknown, response: ActiveResponse) {
    Count.response = response;
  }
  static ended: (() => void) | undefined;
  onResponseEnd() {
    Count.ended?.();
  }
}

/**
 * A server that passes all that it is asked on to an upstream.
 * @param headed runs when the head of an answer has come, and may end the request
 */
async function passing(
  t: Test,
  script: Script,
  limits: Partial<Timeouts> = {},
  headers: Record<string, string> = {},
  {
    environment = {},
    origin,
    headed,
  }: { environment?: Record<string, string>; origin?: string; headed?: (abort: () => void) => void } = {},
) {
  const upstream = await rawUpstream(script);
  const agents = new Agents(environment);
  const proxy = new UpstreamProxy(new Pools({ environment: {} }), agents);
  const ends: End[] = [];
  const errors: GatewayError[] = [];
  const requests: IncomingMessage[] = [];
  const server = createServer({ IncomingMessage: ServerRequest, requestTimeout: 0 }, (request, response) => {
    requests.push(request);
    const timeouts = { connect: 0, first_byte: 0, idle: 0, total: 0, ...limits };
    const outgoing = {
      target: new URL(request.url ?? "", origin ?? upstream.origin),
      headers,
      account: "one",
      timeouts,
    };
    const observer = new Count();
    const addAbortListener = (listener: AbortListener) => {
      const { onResponseHead } = observer;
      if (headed)
        observer.onResponseHead = (...told) => {
          headed(() => listener.onAbort());
          return onResponseHead(...told);
        };
    };
    const client = { request, response, addAbortListener, removeAbortListener() {} };
    proxy.pass(outgoing, client, observer).then(
      () => ends.push(undefined),
      (error: GatewayError) => {
        ends.push(error.code);
        errors.push(error);
        if (!response.headersSent && !response.destroyed) response.writeHead(error.status).end(error.code);
      },
    );
  });
  // Without this listener node would answer 100 itself, and never say that it was asked.
  server.on("checkContinue", (request, response) => {
    response.writeContinue();
    server.emit("request", request, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(async () => {
    server.closeAllConnections();
    server.close();
    agents.close();
    await upstream.close();
  });
  const { port } = server.address() as AddressInfo;
  return { upstream, port, ends, errors, requests };
}

/** Asks, and reads the answer to its end. */
function ask(port: number, options: RequestOptions = {}, body?: string) {
  return new Promise<{ status: number; headers: IncomingMessage["headers"]; body: string; whole: boolean }>(
    (resolve, reject) => {
      const asked = httpRequest({ port, host: "127.0.0.1", ...options }, (answer) => {
        let text = "";
        answer.setEncoding("latin1").on("data", (piece: string) => (text += piece));
        answer.on("error", () => {});
        answer.on("close", () => {
          const { statusCode: status = 0, headers, complete: whole } = answer;
          resolve({ status, headers, body: text, whole });
        });
      });
      asked.on("error", reject).end(body);
    },
  );
}

t.test(
  "a client that leaves at a stream's terminal event has all of it, unless the event has not left the gateway",
  async (t) => {
    for (const isHeld of [false, true]) {
      let provider: Socket | undefined;
      const { port, ends, requests, upstream } = await passing(t, (socket) => {
        provider = socket;
        socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n");
      });
      const asked = httpRequest({ port, host: "127.0.0.1" }).on("error", () => {});
      asked.end();
      const [answer] = (await once(asked, "response")) as [IncomingMessage];
      let text = "";
      answer.on("data", (piece: Buffer) => (text += piece)).on("error", () => {});
      await until(() => text === "first", "the first bytes");
      const { socket } = requests[0] as IncomingMessage;
      let isDelivered: boolean | undefined;
      // As for an exchange: before the pass hears of it.
      socket.prependOnceListener("close", () => {
        isDelivered = Count.response?.endIfDelivered();
      });
      if (isHeld) socket.cork();
      const before = Count.received;
      provider?.write("6\r\n[DONE]\r\n");
      await until(() => Count.received > before && (isHeld || text === "first[DONE]"), "the terminal event");
      for (let i = 0; i < 9; i++) await new Promise((next) => setImmediate(next));
      // Node would still send what it holds after a regular end.
      if (isHeld) asked.socket?.resetAndDestroy();
      else asked.destroy();
      await until(() => ends.length === 1, "its end");
      t.same([isDelivered, ends], isHeld ? [false, ["client_gone"]] : [true, [undefined]]);
      await until(() => upstream.open === 0, "the provider to hear of it");
    }
  },
);

t.test(
  "DELETE and OPTIONS with chunks are sent with chunks, and cause no second request (fix: restoreFraming)",
  async (t) => {
    const smuggled = "GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for (const method of ["DELETE", "OPTIONS", "POST"]) {
      const seen: [head: string, body: string][] = [];
      const { port } = await passing(t, async (socket, request) => {
        const body = (await request.body).toString();
        seen.push([request.head, body]);
        socket.write(OK);
      });
      const chunk = `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`;
      await send(port, `${method} /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n${chunk}`);
      t.equal(seen.length, 1, method);
      t.equal(seen[0]?.[1], smuggled, method);
      t.notMatch(seen[0]?.[0], /content-length/i, method);
    }
  },
);

t.test("bodies keep their original length, and methods that expect one declare an absent body", async (t) => {
  const heads: string[] = [];
  const { port } = await passing(t, async (socket, request) => {
    await request.body;
    heads.push(request.head);
    socket.write(OK);
  });
  const framing = (head: string) => head.match(/^(?:content-length|transfer-encoding): .*$/gim);
  for (const [method, length, body] of [
    ["POST", "3", "abc"],
    ["DELETE", "3", "abc"],
    ["POST", "0", ""],
    ["PUT", undefined, ""],
    ["DELETE", undefined, ""],
    ["GET", undefined, ""],
  ] as const) {
    const lines = length === undefined ? "" : `content-length: ${length}\r\n`;
    await send(port, `${method} /x HTTP/1.1\r\nhost: x\r\n${lines}\r\n${body}`);
    const expected = length ?? (method === "PUT" ? "0" : undefined);
    t.same(framing(heads.pop() ?? ""), expected === undefined ? null : [`content-length: ${expected}`], method);
  }
});

t.test(
  "only the framing of a client's headers is sent, so that Expect hides no request from the gateway",
  async (t) => {
    const heads: string[] = [];
    const { port, ends } = await passing(
      t,
      (_socket, request) => heads.push(request.head),
      { first_byte: 60 },
      { x: "1" },
    );
    const talk = await send(
      port,
      "POST /x HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nauthorization: secret\r\nkeep-alive: timeout=1\r\n" +
        "connection: keep-alive, x-named\r\nx-named: 1\r\nte: trailers\r\nproxy-authorization: secret\r\ncontent-length: 2\r\n\r\nok",
    );
    t.match(talk.text, /^HTTP\/1.1 100 Continue/);
    t.match(
      heads[0]?.toLowerCase(),
      /^post \/x http\/1.1\r\ncontent-length: 2\r\nx: 1\r\nhost: 127[^\r]+\r\nconnection: keep-alive\r\n\r\n$/,
    );
    // A request with Expect would never have been told of (fix: restoreFraming), nor had a limit (fix: onUpstreamRequest).
    t.same([talk.statuses, ends], [[504], ["upstream_timeout"]]);
  },
);

t.test("a provider's failure is an interruption, of any cause (fix: close of the answer)", async (t) => {
  const deaths: Record<string, (socket: Socket) => unknown> = {
    "end within chunks": (socket) => socket.end(`${CHUNKED}5\r\n12345\r\n`),
    "reset within chunks": (socket) =>
      socket.write(`${CHUNKED}5\r\n12345\r\n`, () => afterHearing(20, () => socket.resetAndDestroy())),
    "fewer bytes than announced": (socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n12345"),
    "reset without a length": (socket) =>
      socket.write("HTTP/1.1 200 OK\r\n\r\n12345", () => afterHearing(20, () => socket.resetAndDestroy())),
    "reset in HTTP/1.0": (socket) =>
      socket.write("HTTP/1.0 200 OK\r\n\r\n12345", () => afterHearing(20, () => socket.resetAndDestroy())),
    "broken chunks": (socket) => socket.write(`${CHUNKED}5\r\n12345\r\nzz\r\n`),
  };
  for (const [name, script] of Object.entries(deaths)) {
    const { port, ends } = await passing(t, script);
    const { body, whole } = await ask(port);
    t.same([body, whole], ["12345", false], name);
    t.same(ends, ["upstream_truncated"], name);
    // HTTP/1.0 has no chunks: only a reset tells that the body is not whole.
    if (name.includes("chunks")) {
      const socket = connect(port, "127.0.0.1", () => socket.write("GET / HTTP/1.0\r\n\r\n"));
      socket.resume();
      const [error] = await once(socket, "error");
      t.equal(error.code, "ECONNRESET", `${name}, HTTP/1.0`);
    }
  }
});

t.test("a provider that fails before it answers is a 502, one that never answers a 504", async (t) => {
  const dead = await passing(t, (socket) => socket.destroy());
  t.match(await ask(dead.port, { method: "POST" }, "x"), { status: 502, body: "upstream_failed" });
  const odd = await passing(t, (socket) => socket.write("SSH-2.0-x\r\n\r\n"));
  t.match(await ask(odd.port), { status: 502, body: "upstream_invalid" });
  const silent = await passing(t, () => {}, { first_byte: 40 });
  t.match(await ask(silent.port), { status: 504, body: "upstream_timeout" });
  await until(() => silent.upstream.open === 0, "its connection to be closed");
  const { upstream, port } = await passing(t, () => {});
  await upstream.close();
  t.match(await ask(port), { status: 502, body: "upstream_unreachable" });
});

t.test(
  "headers of a provider that failed are not sent with the gateway's own response (fix: removeHeader)",
  async (t) => {
    // When the library has set them, and before they are written.
    const headed = (abort: () => void) => process.nextTick(abort);
    const script: Script = (socket) => socket.write("HTTP/1.1 200 OK\r\netag: x\r\ncontent-length: 9\r\n\r\n");
    const { port } = await passing(t, script, {}, {}, { headed });
    const { status, headers, body, whole } = await ask(port);
    t.same([status, headers.etag, body, whole], [499, undefined, "client_gone", true]);
  },
);

t.test("the idle timeout does not limit the time for which a provider thinks", async (t) => {
  const { port, ends } = await passing(t, (socket) => setTimeout(() => socket.write(OK), 200), { idle: 50 });
  t.match(await ask(port, { method: "POST" }, "x"), { status: 200, whole: true });
  t.same(ends, [undefined]);
});

t.test("an unrequested upgrade ends the request (fix: upgrade)", async (t) => {
  const { port, upstream } = await passing(t, (socket) =>
    socket.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
  );
  t.match(await ask(port), { status: 502, body: "upstream_invalid" });
  await until(() => upstream.open === 0, "the connection to be closed");
});

t.test("an answer without a length whose connection is closed normally is complete", async (t) => {
  const { port, ends } = await passing(t, (socket) => socket.end("HTTP/1.0 200 OK\r\n\r\n12345"));
  t.match(await ask(port), { status: 200, body: "12345", whole: true });
  t.same(ends, [undefined]);
});

t.test("a head that is not a final response, or is ambiguous, is refused (fix: responseError)", async (t) => {
  const heads = [
    ...["101 Switching Protocols\r\n", "101 X\r\nconnection: upgrade\r\n", "600 x\r\ncontent-length: 2\r\n"],
    ...["200 OK\r\ntransfer-encoding: gzip, chunked\r\n", "200 OK\r\ntransfer-encoding: identity\r\n"],
    "200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n",
    "200 OK\r\ncontent-type: a\r\ncontent-type: a\r\ncontent-length: 2\r\n",
    "200 OK\r\ncontent-encoding: gzip\r\ncontent-encoding: br\r\ncontent-length: 2\r\n",
    "200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n",
  ];
  for (const head of heads) {
    const { port, upstream } = await passing(t, (socket) => socket.write(`HTTP/1.1 ${head}\r\nok`));
    t.match(await ask(port), { status: 502, body: "upstream_invalid", whole: true }, head);
    await until(() => upstream.open === 0, "the connection to be closed");
  }
});

t.test("interim data before the head does not extend the timeout (fix: startDeadline)", async (t) => {
  for (const piece of ["HTTP/1.1 102 Processing\r\n\r\n", "x: 1\r\n"]) {
    const { port } = await passing(
      t,
      (socket) => {
        if (piece.startsWith("x")) socket.write("HTTP/1.1 200 OK\r\n");
        const timer = setInterval(() => socket.write(piece), 10);
        socket.on("close", () => clearInterval(timer));
      },
      { first_byte: 100 },
    );
    t.match(await ask(port), { status: 504, body: "upstream_timeout" }, piece);
  }
});

t.test("a proxy or a TLS handshake that does not respond is no connection (fix: startDeadline)", async (t) => {
  const proxy = await connectProxy(t, { answer: () => true });
  const environment = { https_proxy: proxy.address };
  const silent = await passing(t, () => {}, { connect: 100 }, {}, { environment, origin: "https://provider.test" });
  t.match(await ask(silent.port), { status: 502, body: "upstream_unreachable" });
  await until(() => proxy.sockets.size === 0, "the tunnel to be given up");
  const mute = await rawUpstream(() => {});
  t.teardown(() => mute.close());
  // The proxy opens its tunnel, and nobody speaks TLS at its end.
  const opening = await connectProxy(t);
  const through = {
    environment: { https_proxy: opening.address },
    origin: `https://provider.test:${mute.origin.port}`,
  };
  const tunnelled = await passing(t, () => {}, { connect: 100 }, {}, through);
  t.match(await ask(tunnelled.port), { status: 502, body: "upstream_unreachable" });
  await until(() => opening.sockets.size === 0, "the tunnel to be closed");
  const origin = `https://127.0.0.1:${mute.origin.port}`;
  for (const [method, body] of [
    ["GET", undefined],
    ["POST", "x"],
  ] as const) {
    const plain = await passing(t, () => {}, { connect: 100 }, {}, { origin });
    t.match(await ask(plain.port, { method }, body), { status: 502, body: "upstream_unreachable" }, method);
  }
  await until(() => mute.open === 0, "its connections to be closed");
});

t.test("an established tunnel is not affected by the timeout for it", async (t) => {
  setDefaultCACertificates([certificate]);
  t.teardown(() => setDefaultCACertificates([]));
  const limit = 400;
  const provider = createTlsServer({ cert: certificate, key }, (socket) => {
    socket.once("data", () => setTimeout(() => socket.write(OK), 1.5 * limit)).on("error", () => {});
  });
  provider.listen(0, "127.0.0.1");
  await once(provider, "listening");
  t.teardown(() => void provider.close());
  const proxy = await connectProxy(t);
  const origin = `https://provider.test:${(provider.address() as AddressInfo).port}`;
  const through = { environment: { https_proxy: proxy.address }, origin };
  const { port } = await passing(t, () => {}, { connect: limit }, {}, through);
  t.match(await ask(port), { status: 200, body: "ok" });
  t.match(proxy.heads[0], /^CONNECT /);
});

t.test(
  "a proxy's own refusal is not passed on as the provider's, and is reported without its credentials",
  async (t) => {
    const proxy = await connectProxy(t, {
      answer: (socket) =>
        socket.write("HTTP/1.1 407 x\r\nproxy-authenticate: Basic\r\ncontent-length: 6\r\n\r\nsecret"),
    });
    const environment = { http_proxy: proxy.address.replace("//", "//user:password@") };
    const { port, errors } = await passing(t, () => {}, {}, {}, { environment, origin: "http://provider.test" });
    t.match(await ask(port), { status: 502, body: "upstream_unreachable" });
    t.match(errors[0]?.message, "The gateway's proxy answered 407");
    t.match(String(errors[0]?.cause), ` through the proxy ${proxy.address}`);
    t.match(proxy.heads[0], /^GET http:\/\/provider\.test\//);
    // Without a proxy it is the provider's.
    const direct = await passing(t, (socket) => socket.write("HTTP/1.1 407 x\r\ncontent-length: 2\r\n\r\nno"));
    t.match(await ask(direct.port), { status: 407, body: "no" });
  },
);

t.test("a proxy that opens no tunnel is named, without its credentials (fix: tunnelFailure)", async (t) => {
  const proxy = await connectProxy(t, {
    answer: (socket) => socket.write("HTTP/1.1 407 x\r\nproxy-authenticate: Basic\r\ncontent-length: 6\r\n\r\nsecret"),
  });
  const environment = { https_proxy: proxy.address.replace("//", "//user:password@") };
  const { port, errors } = await passing(t, () => {}, {}, {}, { environment, origin: "https://provider.test" });
  t.match(await ask(port), { status: 502, body: "upstream_unreachable" });
  t.match(errors[0]?.message, "The gateway's proxy answered 407");
  t.match(String(errors[0]?.cause), ` through the proxy ${proxy.address}`);
  t.notMatch(JSON.stringify([errors, String(errors[0]?.cause)]), /password/);
});

t.test(
  "a proxy's response in the provider's place is not passed on as the provider's (fix: forwarderRefusal)",
  async (t) => {
    for (const status of [403, 502, 503]) {
      const proxy = await connectProxy(t, {
        answer: (socket) => socket.write(`HTTP/1.1 ${status} x\r\ncontent-length: 12\r\n\r\n<b>squid</b>`),
      });
      const through = { environment: { http_proxy: proxy.address }, origin: "http://provider.test" };
      const { port, errors } = await passing(t, () => {}, {}, {}, through);
      t.match(await ask(port), { status, body: "upstream_refused" });
      t.match(errors[0]?.message, `the proxy ${proxy.address} in front of it, answered ${status}`);
    }
  },
);

t.test("an error that arrives slowly is answered with its status in ten seconds, and is no interruption", async (t) => {
  const { port, ends } = await passing(t, (socket) => socket.write(`${CHUNKED.replace("200", "429")}5\r\n12345\r\n`));
  mock.timers.enable({ apis: ["setTimeout"] });
  t.teardown(() => mock.timers.reset());
  const answer = ask(port);
  const limit = setInterval(() => mock.timers.tick(10_000), 20);
  t.match(await answer, { status: 429, body: "upstream_refused" });
  clearInterval(limit);
  t.same(ends, ["upstream_refused"]);
});

t.test(
  "a head is sent upstream before the first byte of its body, so that it can be refused (fix: flushHeaders)",
  async (t) => {
    const { port } = await passing(t, (socket) => socket.write("HTTP/1.1 403 x\r\ncontent-length: 2\r\n\r\nno"));
    for (const framing of ["content-length: 100", "transfer-encoding: chunked"]) {
      const socket = connect(port, "127.0.0.1", () => socket.write(`POST / HTTP/1.1\r\nhost: x\r\n${framing}\r\n\r\n`));
      let text = "";
      socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
      await until(() => text.endsWith("no"), framing);
      t.match(text, /^HTTP\/1.1 403 /, framing);
      socket.destroy();
    }
  },
);

t.test("redirects are refused, and nothing of them is passed on (fix: withhold)", async (t) => {
  const { port, upstream } = await passing(t, (socket) =>
    socket.write("HTTP/1.1 302 Found\r\nlocation: /secret\r\netag: x\r\ncontent-length: 2\r\n\r\nno"),
  );
  const { status, body, headers } = await ask(port);
  t.same([status, body, headers.etag, headers.location], [502, "upstream_redirect", undefined, undefined]);
  t.equal(upstream.connections, 1);
});

t.test("a client that disconnects ends the provider's request, before the head and after it", async (t) => {
  for (const answer of ["", `${CHUNKED}5\r\n12345\r\n`]) {
    let asked = false;
    const { port, upstream, ends } = await passing(t, (socket) => {
      asked = true;
      socket.write(answer);
    });
    const socket = connect(port, "127.0.0.1", () => socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
    if (answer !== "") await once(socket, "data");
    await until(() => asked);
    socket.destroy();
    await until(() => upstream.open === 0, "the provider to hear of it");
    await until(() => ends.length === 1);
    t.same(ends, ["client_gone"]);
  }
});

t.test(
  "a client's connection is closed if it requested close, and kept otherwise (fix: headers.connection)",
  async (t) => {
    const { port } = await passing(t, (socket) => socket.write(OK));
    t.equal((await ask(port, { headers: { connection: "close" } })).headers.connection, "close");
    t.equal((await ask(port, { headers: { connection: "keep-alive" } })).headers.connection, "keep-alive");
  },
);

t.test("a head is sent to the client before the first byte of its body (fix: flushHeaders)", async (t) => {
  let provider: Socket | undefined;
  const { port } = await passing(t, (socket) => {
    provider = socket;
    socket.write(CHUNKED);
  });
  const asked = httpRequest({ port, host: "127.0.0.1" }).end();
  const [answer] = (await once(asked, "response")) as [IncomingMessage];
  provider?.write("2\r\nok\r\n0\r\n\r\n");
  const pieces = await Array.fromAsync(answer);
  t.equal(pieces.join(""), "ok");
});

t.test("an answer before the end of the upload arrives, and the connection is reused (fix: onClose)", async (t) => {
  const { port, ends, requests } = await passing(t, (socket) => {
    socket.pause();
    socket.write("HTTP/1.1 413 x\r\ncontent-length: 2\r\n\r\nno");
  });
  const body = Buffer.alloc(12_000_000);
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
  const answers = () => text.split("HTTP/1.1 413").length - 1;
  for (const nth of [1, 2]) {
    socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n`);
    socket.write(body.subarray(0, 8_000_000));
    await until(() => answers() === nth && ends.length === nth, `answer ${nth}`);
    socket.write(body.subarray(8_000_000));
  }
  await until(() => requests.every((request) => request.complete), "the rest to be read away");
  t.same(ends, [undefined, undefined]);
  socket.destroy();
});

t.test(
  "an answer before the end of the upload arrives, although its provider reads nothing more and closes",
  async (t) => {
    const { port, ends } = await passing(t, (socket) => {
      socket.pause();
      // What has not been read makes the close a reset.
      socket.write("HTTP/1.1 413 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", () => socket.destroy());
    });
    const body = Buffer.alloc(8_000_000);
    for (let nth = 0; nth < 20; nth++) {
      const socket = connect(port, "127.0.0.1");
      let text = "";
      socket.setEncoding("latin1").on("data", (piece: string) => (text += piece));
      socket.on("error", () => {});
      socket.write(`POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n`);
      socket.write(body.subarray(0, 6_000_000));
      await until(() => text.includes("\r\n\r\n"), `answer ${nth}`);
      t.match(text, /^HTTP\/1.1 413/);
      socket.destroy();
    }
    await until(() => ends.length === 20, "all ends");
    t.same(ends, Array(20).fill(undefined));
  },
);

t.test(
  "a kept connection that the provider closes: a request that only reads is sent again, any other is a 502",
  async (t) => {
    for (const [method, body] of [
      ["GET", undefined],
      ["DELETE", undefined],
      ["POST", ""],
      ["POST", "once"],
    ] as const) {
      const bodies: string[] = [];
      const { port, upstream, ends } = await passing(t, async (socket, request) => {
        if (request.nth > 1) return socket.destroy();
        bodies.push((await request.body).toString());
        return socket.write(OK);
      });
      t.match(await ask(port, { method }, body), { status: 200, body: "ok" });
      const { status } = await ask(port, { method }, body);
      if (method === "GET") t.same([status, ends, upstream.connections], [200, [undefined, undefined], 2], method);
      else t.same([status, ends, bodies], [502, [undefined, "upstream_failed"], [body ?? ""]], method);
    }
  },
);

t.test("after a body that many servers leave unread the provider's connection is not used again", async (t) => {
  const heads: string[] = [];
  const { port, upstream } = await passing(t, async (socket, request) => {
    heads.push(request.head);
    await request.body;
    return socket.write(OK);
  });
  for (const [method, body, connections] of [
    ["GET", "GET /smuggled HTTP/1.1", 1],
    ["GET", undefined, 2],
    ["DELETE", "{}", 2],
    ["OPTIONS", "{}", 3],
    ["POST", "{}", 4],
    ["GET", undefined, 4],
  ] as const) {
    const headers = body === undefined ? {} : { "content-length": String(body.length) };
    t.match(await ask(port, { method, headers }, body), { status: 200, body: "ok" });
    t.equal(upstream.connections, connections, `${method} ${body}`);
    const closes = body !== undefined && method !== "POST";
    t.equal(/^connection: close\r?$/im.test(heads.at(-1) as string), closes, `${method} ${body}`);
  }
});

t.test("a connection that breaks before its first answer is not retried", async (t) => {
  const { port, upstream } = await passing(t, (socket) => socket.destroy());
  t.equal((await ask(port)).status, 502);
  t.equal(upstream.connections, 1);
});

t.test("the idle timeout applies to either side", async (t) => {
  const half = `${CHUNKED}5\r\n12345\r\n`;
  const idle = await passing(t, (socket) => socket.write(half), { idle: 40 });
  t.match(await ask(idle.port), { body: "12345", whole: false });
  t.same(idle.ends, ["upstream_timeout"]);

  // Time enough for the head to come.
  const total = await passing(t, (socket) => socket.write(half), { total: 500 });
  t.match(await ask(total.port), { body: "12345", whole: false });
  t.same(total.ends, ["upstream_timeout"]);

  // The provider stops reading: nobody hears whether the client is still there.
  // Long enough for a client in this busy process to fill every buffer on the way without a pause.
  const stuck = await passing(t, (socket) => socket.pause(), { idle: 1000 });
  const upload = connect(stuck.port, "127.0.0.1");
  upload.on("error", () => {});
  upload.write("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n");
  const piece = Buffer.alloc(1 << 20);
  const more = () => {
    while (!upload.destroyed && upload.write(piece));
  };
  upload.on("drain", more);
  more();
  await until(() => stuck.ends.length === 1, "the idle limit");
  t.same(stuck.ends, ["upstream_timeout"]);
  upload.destroy();

  // The client stops sending.
  const quiet = await passing(t, () => {}, { idle: 60 });
  const talk = await send(quiet.port, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345");
  t.same([talk.statuses, quiet.ends], [[408], ["body_timeout"]]);

  // The client stops reading. The provider sends all at once, and the limit leaves time for what fills every buffer on the way.
  const whole = Buffer.concat([
    Buffer.from("HTTP/1.1 200 OK\r\ncontent-length: 200000000\r\n\r\n"),
    Buffer.alloc(200_000_000),
  ]);
  const large = await passing(t, (socket) => socket.write(whole), { idle: 1000 });
  const reader = connect(large.port, "127.0.0.1", () => reader.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n"));
  reader.on("error", () => {}).pause();
  await until(() => large.ends.length === 1, "the idle limit");
  t.same(large.ends, ["client_gone"]);
  reader.destroy();
});

t.test("a head that cannot be written is answered by the gateway, and nothing is sent", async (t) => {
  const { port, upstream } = await passing(t, (socket) => socket.write(OK), {}, { "x-bad": "a\nb" });
  t.match(await ask(port), { status: 500, body: "internal" });
  t.equal(upstream.connections, 0);
});

t.test("answers without a body, interim answers and HEAD", async (t) => {
  const { port } = await passing(t, (socket, { head }) => {
    if (head.startsWith("HEAD")) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n");
    else if (head.startsWith("GET /304")) socket.write("HTTP/1.1 304 x\r\netag: y\r\n\r\n");
    else socket.write(`HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${OK}`);
  });
  t.match(await ask(port, { method: "HEAD" }), { status: 200, headers: { "content-length": "99" }, whole: true });
  t.match(await ask(port, { path: "/304" }), { status: 304, headers: { etag: "y" }, whole: true });
  t.match(await ask(port), { status: 200, body: "ok", whole: true });
});

t.test(
  "the end of a response is reported once, before its last byte is sent, and only if it is complete",
  async (t) => {
    const LONG = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    const sse = (socket: Socket, ...pieces: string[]) => {
      for (const [at, piece] of pieces.entries()) setTimeout(() => socket.write(piece), 20 * at);
    };
    for (const [what, method, script, whole] of [
      ["a length", "GET", (socket) => sse(socket, `${LONG}01234`, "56789"), true],
      ["chunks", "POST", (socket) => sse(socket, `${CHUNKED}2\r\nok\r\n`, "0\r\n\r\n"), true],
      ["the end of its connection", "GET", (socket) => socket.end("HTTP/1.0 200 OK\r\n\r\nok"), true],
      ["a HEAD", "HEAD", (socket) => socket.write(LONG), true],
      ["no content", "GET", (socket) => socket.write("HTTP/1.1 204 No Content\r\n\r\n"), true],
      ["an interim answer", "GET", (socket) => socket.write(`HTTP/1.1 103 Early Hints\r\n\r\n${OK}`), true],
      ["an error", "GET", (socket) => socket.write("HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\n{}"), true],
      ["a length that is cut", "GET", (socket) => socket.end(`${LONG}01234`), false],
      ["chunks that are cut", "GET", (socket) => socket.end(`${CHUNKED}2\r\nok\r\n`), false],
    ] as [string, string, Script, boolean][]) {
      const { port, requests } = await passing(t, script);
      const written: number[] = [];
      Count.ended = () => written.push(requests.at(-1)?.socket.bytesWritten ?? 0);
      const answer = await ask(port, { method });
      Count.ended = undefined;
      t.equal(written.length, whole ? 1 : 0, `${what}: reported`);
      t.equal(answer.whole, whole, `${what}: complete`);
      const all = requests.at(-1)?.socket.bytesWritten ?? 0;
      for (const before of written) t.ok(before < all, `${what}: ${before} of ${all} bytes had been sent`);
    }
  },
);

t.test("passed data is reported to the observer, byte for byte", async (t) => {
  const size = 3_000_000;
  const { port } = await passing(t, async (socket, request) => {
    const body = await request.body;
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
    socket.write(body);
  });
  const before = [Count.sent, Count.received] as const;
  const { body } = await ask(port, { method: "POST" }, "x".repeat(size));
  t.equal(body.length, size);
  t.same([Count.sent - before[0], Count.received - before[1]], [size, size]);
});

t.test("a body whose pieces take long to check is read in many turns of the event loop", async (t) => {
  const { port } = await passing(t, async (socket, request) => {
    await request.body;
    socket.write(OK);
  });
  const turns = turnCounter(t);
  const checkedIn: number[] = [];
  t.intercept(Count.prototype, "onRequestBody", {
    value: () => {
      const end = performance.now() + 5;
      while (performance.now() < end);
      checkedIn.push(turns());
    },
  });
  const { status } = await ask(port, { method: "POST" }, "x".repeat(2 << 20));
  t.equal(status, 200);
  t.ok(checkedIn.length > 10, "in many pieces");
  t.equal(new Set(checkedIn).size, checkedIn.length, "one in a turn");
});
