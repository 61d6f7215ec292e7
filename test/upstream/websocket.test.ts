import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import t, { type Test } from "tap";
import { Redactor } from "../../src/core/redactor.ts";
import { Agents } from "../../src/upstream/agents.ts";
import { Pools } from "../../src/upstream/http1/pools.ts";
import { UpstreamProxy } from "../../src/upstream/proxy.ts";
import type { SocketEnd, SocketObserver } from "../../src/upstream/websocket.ts";
import { connectProxy } from "../support/connect-proxy.ts";
import { until } from "../support/until.ts";
import { type RawRequest, rawUpstream } from "../support/upstream.ts";

/** The `sec-websocket-accept` for the key `key`. */
const ACCEPT = "3zK22MhUhryr5kF4G6IwUR0kqa4=";
const SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n";
const ACCEPTED = `${SWITCHING}sec-websocket-accept: ${ACCEPT}\r\n`;

/** A server that hands each handshake over to an upstream, and what a raw client of it sees. */
async function relaying(
  t: Test,
  script: (socket: Socket, request: RawRequest) => unknown,
  { connect: connectLimit = 0, first_byte = 0 } = {},
  {
    environment = {},
    origin,
    message = 1000,
    idle = 0,
    ...parsing
  }: { environment?: Record<string, string>; origin?: string; message?: number; idle?: number } & Pick<
    SocketObserver,
    "checkMessage" | "onTextMessage"
  > = {},
) {
  const upstream = await rawUpstream(script);
  const agents = new Agents(environment);
  const proxy = new UpstreamProxy(new Pools({ environment: {} }), agents);
  const ends: SocketEnd[] = [];
  const refused: string[] = [];
  const messages: string[] = [];
  const server = createServer();
  server.on("upgrade", (request, duplex, head) => {
    const socket = duplex as Socket;
    socket.on("error", () => {});
    const observer: SocketObserver = {
      caller: "",
      onResponseHead: () => ({ "x-ours": "1" }),
      redactor: new Redactor(["a-credential-0123456789"]),
      onClientBytes: () => {},
      onProviderBytes: () => {},
      onErrorBody: () => {},
      interrupt: () => {},
      ...parsing,
      onInterrupt: () => () => {},
      refuse({ code, status, message }) {
        refused.push(code);
        messages.push(message);
        socket.end(`HTTP/1.1 ${status} x\r\ncontent-length: 0\r\n\r\n`);
      },
    };
    const timeouts = { connect: connectLimit, first_byte, idle: 0, total: 0 };
    const target = new URL("/x", origin ?? upstream.origin);
    const outgoing = { target, headers: { "x-sent": "1" }, account: "one", timeouts };
    const handshake = { request, socket, head, key: "key", protocols: [], defaultProtocol: undefined };
    proxy.connect(outgoing, handshake, { idle: 0, message, pace: { idle } }, observer).then(
      (end) => ends.push(end),
      ({ code, status }) => {
        refused.push(code);
        socket.end(`HTTP/1.1 ${status} x\r\n\r\n`);
      },
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(async () => {
    server.close();
    agents.close();
    await upstream.close();
  });
  const client = (more = "") => {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const seen = { socket, text: "", closed: false };
    socket.on("error", () => {}).on("close", () => (seen.closed = true));
    socket.setEncoding("latin1").on("data", (piece: string) => (seen.text += piece));
    socket.write(
      "GET /asked HTTP/1.1\r\nhost: x\r\nconnection: upgrade, x-named\r\nx-named: 1\r\nauthorization: secret\r\n" +
        `upgrade: websocket\r\nsec-websocket-extensions: permessage-deflate\r\n\r\n${more}`,
      "latin1",
    );
    t.teardown(() => socket.destroy());
    return seen;
  };
  return { upstream, proxy, ends, refused, messages, client };
}

t.test("only the handshake of a client's headers is sent, and only the provider's handshake is returned", async (t) => {
  let head = "";
  const { client } = await relaying(t, (socket, request) => {
    head = request.head;
    socket.write(`${ACCEPTED}sec-websocket-extensions: x\r\nset-cookie: a=1\r\n\r\n`);
  });
  const seen = client();
  await until(() => seen.text.endsWith("\r\n\r\n"));
  t.same(
    head
      .toLowerCase()
      .replace(/host: [^\r]*/, "host: h")
      .split("\r\n")
      .sort(),
    [
      ...["", "", "connection: upgrade", "get /x http/1.1", "host: h"],
      ...["sec-websocket-key: key", "sec-websocket-version: 13", "upgrade: websocket", "x-sent: 1"],
    ],
  );
  t.same(seen.text.toLowerCase().split("\r\n").sort(), [
    ...["", "", "connection: upgrade", "http/1.1 101 switching protocols"],
    ...[`sec-websocket-accept: ${ACCEPT.toLowerCase()}`, "upgrade: websocket", "x-ours: 1"],
  ]);
});

t.test(
  "what arrives in one packet with the handshake, or with its response, is not lost (fix: nextTick)",
  async (t) => {
    let early = "";
    const { client } = await relaying(t, (socket) => {
      socket.on("data", (piece: Buffer) => (early += piece.toString("latin1")));
      socket.write(`${ACCEPTED}\r\n\x81\x05first`, "latin1");
    });
    const seen = client("\x81\x85\0\0\0\0early");
    await until(() => seen.text.endsWith("\x81\x05first"), "the provider's first frame");
    await until(() => early.endsWith("early"), "the client's first frame");
  },
);

t.test("a handshake without a response times out, and the provider's connection is closed", async (t) => {
  const { upstream, client, refused, ends } = await relaying(t, () => {}, { first_byte: 50 });
  const seen = client();
  await until(() => seen.closed);
  t.match(seen.text, /^HTTP\/1.1 504/);
  await until(() => upstream.open === 0);
  t.same(refused, ["upstream_timeout"]);
  t.same(ends, [{ code: undefined, endedBy: undefined }]);
});

t.test("a proxy or a TLS handshake that does not respond is no connection", async (t) => {
  const tunnel = await connectProxy(t, { answer: () => true });
  const through = { environment: { https_proxy: tunnel.address }, origin: "https://provider.test" };
  const mute = await rawUpstream(() => {});
  t.teardown(() => mute.close());
  for (const where of [through, { origin: `https://127.0.0.1:${mute.origin.port}` }]) {
    const { client, refused } = await relaying(t, () => {}, { connect: 100 }, where);
    const seen = client();
    await until(() => seen.closed);
    t.match(seen.text, /^HTTP\/1.1 502/, where.origin);
    t.same(refused, ["upstream_unreachable"], where.origin);
  }
});

t.test("a proxy's own refusal is not passed on as the provider's (fix: forwarderRefusal)", async (t) => {
  const asked = await connectProxy(t, {
    answer: (socket) => socket.write("HTTP/1.1 407 x\r\nproxy-authenticate: x\r\ncontent-length: 6\r\n\r\nsecret"),
  });
  const environment = { http_proxy: asked.address.replace("//", "//user:password@") };
  const { client, refused, messages } = await relaying(
    t,
    () => {},
    {},
    { environment, origin: "http://provider.test" },
  );
  const seen = client();
  await until(() => seen.closed);
  t.equal(seen.text, "HTTP/1.1 502 x\r\ncontent-length: 0\r\n\r\n");
  t.same(refused, ["upstream_unreachable"]);
  t.match(messages[0], "The gateway's proxy answered 407");
});

t.test(
  "a handshake that is answered with no error is refused with the gateway's own, as other requests are",
  async (t) => {
    for (const [status, code] of [
      [302, "upstream_redirect"],
      [200, "upstream_invalid"],
      [999, "upstream_invalid"],
    ] as const) {
      const { upstream, client, refused } = await relaying(t, (socket) => {
        socket.write(`HTTP/1.1 ${status} x\r\nlocation: http://elsewhere.test/\r\ncontent-length: 4\r\n\r\npage`);
      });
      const seen = client();
      await until(() => seen.closed);
      t.equal(seen.text, "HTTP/1.1 502 x\r\ncontent-length: 0\r\n\r\n", String(status));
      t.same(refused, [code], String(status));
      await until(() => upstream.open === 0);
    }
  },
);

t.test("a 101 that does not answer the handshake is refused, and the client hears nothing of it", async (t) => {
  const accept = `sec-websocket-accept: ${ACCEPT}\r\n`;
  for (const answer of [
    SWITCHING,
    `${SWITCHING}sec-websocket-accept: dGhlIHNhbXBsZSBub25jZQ==\r\n`,
    `${ACCEPTED}${accept}`,
    `${ACCEPTED.replace("websocket", "h2c")}`,
    `${ACCEPTED}upgrade: h2c\r\n`,
  ]) {
    const { upstream, client, refused, ends } = await relaying(t, (socket) => {
      socket.write(`${answer}\r\n\x81\x05first`, "latin1");
    });
    const seen = client();
    await until(() => seen.closed);
    t.equal(seen.text, "HTTP/1.1 502 x\r\ncontent-length: 0\r\n\r\n", answer);
    t.same(refused, ["upstream_invalid"], answer);
    await until(() => ends.length === 1 && upstream.open === 0);
    t.same(ends, [{ code: undefined, endedBy: undefined }], answer);
  }
});

t.test("a close frame of the gateway's is sent between two frames, and nothing follows it", async (t) => {
  let provider: Socket | undefined;
  const { client, proxy, ends } = await relaying(t, (socket) => {
    provider = socket;
    socket.write(`${ACCEPTED}\r\n`);
    socket.write(Buffer.from([0x82, 10, 1, 2, 3]));
  });
  const seen = client();
  await until(() => seen.text.length > 0 && seen.text.endsWith("\x01\x02\x03"));
  proxy.drain();
  await new Promise((later) => setTimeout(later, 20));
  t.ok(seen.text.endsWith("\x01\x02\x03"), "not within a frame");
  provider?.write(Buffer.from([4, 5, 6, 7, 8, 9, 10, 0x82, 2, 1]));
  await until(() => seen.closed);
  t.ok(seen.text.endsWith("\x04\x05\x06\x07\x08\x09\x0a\x88\x02\x03\xf4"), "the rest of the frame, then 1012");
  await until(() => ends.length === 1);
  t.same(ends, [{ code: 1012, endedBy: "gateway" }]);
});

t.test("nothing of the provider's follows its close frame", async (t) => {
  let provider: Socket | undefined;
  const { client, ends } = await relaying(t, (socket) => {
    provider = socket;
    socket.write(`${ACCEPTED}\r\n`);
  });
  const seen = client();
  await until(() => seen.text.endsWith("\r\n\r\n"));
  const closing = "\x88\x02\x03\xe8";
  provider?.write(`${closing}\x82\x01a`, "latin1");
  await until(() => seen.text.endsWith(closing));
  provider?.write("\x82\x04late", "latin1");
  provider?.end();
  await until(() => seen.closed);
  t.ok(seen.text.endsWith(closing));
  await until(() => ends.length === 1);
  t.same(ends, [{ code: 1000, endedBy: undefined }]);
});

t.test(
  "a close frame that comes in pieces is forwarded when it is whole, without a secret in its reason",
  async (t) => {
    let provider: Socket | undefined;
    const { client, ends } = await relaying(t, (socket) => {
      provider = socket.setNoDelay();
      socket.write(`${ACCEPTED}\r\n`);
    });
    const seen = client();
    await until(() => seen.text.endsWith("\r\n\r\n"));
    const before = seen.text;
    const reason = "no a-credential-0123456789";
    const closing = `\x88${String.fromCharCode(2 + reason.length)}\x03\xe8${reason}`;
    for (const piece of [closing.slice(0, 1), closing.slice(1, 15), `${closing.slice(15)}\x82\x01a`]) {
      t.equal(seen.text, before);
      provider?.write(piece, "latin1");
      await new Promise((later) => setTimeout(later, 20));
    }
    provider?.end();
    await until(() => seen.closed);
    const forwarded = seen.text.slice(before.length);
    t.ok(forwarded.startsWith("\x88") && forwarded.slice(2).startsWith("\x03\xe8no "), forwarded);
    t.notMatch(forwarded, /0123456789|\x82/);
    await until(() => ends.length === 1);
    t.same(ends, [{ code: 1000, endedBy: undefined }]);
  },
);

t.test("what a client whose messages are checked sends behind its close frame reaches no provider", async (t) => {
  let received = "";
  const script = (socket: Socket) => {
    socket.write(`${ACCEPTED}\r\n`);
    socket.on("data", (piece: Buffer) => (received += piece.toString("latin1")));
  };
  const { client } = await relaying(t, script, {}, { checkMessage: () => undefined });
  const seen = client();
  await until(() => seen.text.endsWith("\r\n\r\n"));
  const [message, closing] = ["\x81\x81\0\0\0\0a", "\x88\x82\0\0\0\0\x03\xe8"];
  seen.socket.write(`${message}${closing}${message}`, "latin1");
  await until(() => received.length > 0);
  seen.socket.end(message, "latin1");
  await until(() => seen.closed);
  t.equal(received.slice(received.indexOf(message)), message + closing);
});

t.test(
  "a client whose messages are checked waits for a provider that does not read, and is not too slow then",
  async (t) => {
    const [idle, count] = [2500, 400];
    const frame = Buffer.alloc(14 + 90_000);
    frame.set([0x81, 0xff]);
    frame.writeBigUInt64BE(90_000n, 2);
    let provider: Socket | undefined;
    const script = (socket: Socket) => {
      provider = socket.removeAllListeners("data").pause();
      socket.write(`${ACCEPTED}\r\n`);
    };
    const { client } = await relaying(t, script, {}, { checkMessage: () => undefined, message: 100_000, idle });
    const { socket } = client();
    await until(() => provider !== undefined);
    for (let i = 0; i < count; i++) socket.write(frame);
    await new Promise((later) => setTimeout(later, idle + 500));
    t.ok(socket.writableLength > 0, "the gateway does not buffer what the provider does not read");
    let received = 0;
    provider?.on("data", (piece: Buffer) => (received += piece.length)).resume();
    await until(() => received === count * frame.length, "all of it to arrive");
  },
);

t.test("during a drain, also while the provider is still being called, a handshake is refused", async (t) => {
  const { client, proxy, refused, upstream } = await relaying(t, () => {});
  const asking = client();
  await until(() => upstream.open === 1);
  proxy.drain();
  await until(() => asking.closed);
  t.match(asking.text, /^HTTP\/1.1 503/);
  await until(() => upstream.open === 0);
  const late = client();
  await until(() => late.closed);
  t.match(late.text, /^HTTP\/1.1 503/);
  t.same([refused, upstream.connections], [["draining", "draining"], 1]);
});

t.test("when either side fails the other is closed, and the failed side is recorded", async (t) => {
  for (const death of ["end", "resetAndDestroy"] as const) {
    let provider: Socket | undefined;
    const { client, ends, upstream } = await relaying(t, (socket) => {
      provider = socket;
      socket.write(`${ACCEPTED}\r\n`);
    });
    const one = client();
    await until(() => one.text.endsWith("\r\n\r\n"));
    provider?.[death]();
    await until(() => one.closed, "the client to hear of it");
    const other = client();
    await until(() => other.text.endsWith("\r\n\r\n"));
    other.socket[death]();
    await until(() => upstream.open === 0, "the provider to hear of it");
    await until(() => ends.length === 2);
    t.same(ends, [
      { code: 1006, endedBy: "provider" },
      { code: 1006, endedBy: "client" },
    ]);
  }
});

t.test(
  "a client that still sends gets all of its provider's last messages, and the close frame behind them",
  async (t) => {
    const last = `\x82\x7e\x03\x84${"x".repeat(900)}`.repeat(5);
    const closing = "\x88\x02\x03\xe8";
    for (const checks of [{}, { checkMessage: () => undefined }]) {
      const { client, ends, upstream } = await relaying(
        t,
        (socket) => {
          socket.write(`${ACCEPTED}\r\n`);
          socket.once("data", () => socket.end(last + closing, "latin1"));
        },
        {},
        checks,
      );
      const seen = client();
      await until(() => seen.text.endsWith("\r\n\r\n"));
      seen.socket.pause();
      const sending = setInterval(() => seen.socket.write("\x81\x81\0\0\0\0a", "latin1"), 5);
      await until(() => upstream.open === 0, "the end of the provider");
      await new Promise((later) => setTimeout(later, 100));
      t.same([seen.closed, ends], [false, []]);
      clearInterval(sending);
      seen.socket.resume();
      await until(() => seen.closed);
      t.ok(seen.text.endsWith(last + closing));
      await until(() => ends.length === 1);
      t.same(ends, [{ code: 1000, endedBy: undefined }]);
    }
  },
);

t.test("a client that does not close its connection is not waited for much longer", async (t) => {
  const { client, proxy, ends } = await relaying(t, (socket) => socket.write(`${ACCEPTED}\r\n`));
  const seen = client();
  await until(() => seen.text.endsWith("\r\n\r\n"));
  // It reads nothing, and so does not see the end.
  seen.socket.pause();
  proxy.drain();
  await until(() => ends.length === 1);
  t.same(ends, [{ code: 1012, endedBy: "gateway" }]);
});

t.test("of many small frames that are parsed, one chunk is read in a turn, from either side", async (t) => {
  const FRAMES = 200_000;
  const CHUNK = 65_536;
  for (const side of ["client", "provider"] as const) {
    const masked = side === "client";
    const frame = Buffer.from(masked ? [0x81, 0x81, 0, 0, 0, 0, 0x78] : [0x81, 1, 0x78]);
    const all = Buffer.alloc(FRAMES * frame.length, frame);
    let parsed = 0;
    const count = () => {
      parsed++;
      return undefined;
    };
    const { client } = await relaying(
      t,
      (socket) => {
        socket.write(`${ACCEPTED}\r\n`);
        if (masked) socket.resume();
        else socket.write(all);
      },
      {},
      masked ? { checkMessage: count } : { onTextMessage: count },
    );
    const seen = client();
    await until(() => seen.text.includes("101"));
    if (masked) seen.socket.write(all);
    let most = 0;
    for (let before = parsed; parsed < FRAMES; before = parsed) {
      await new Promise((turn) => setImmediate(turn));
      most = Math.max(most, parsed - before);
    }
    t.ok(most <= CHUNK / frame.length + 1, `${side}: at most a chunk in a turn, not ${most} frames`);
    seen.socket.destroy();
  }
});
