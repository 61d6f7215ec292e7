import { once } from "node:events";
import { connect } from "node:net";
import t, { type Test } from "tap";
import { asking, KEY, type Running, startGateway } from "../support/gateway.ts";
import { entrance, WAYS } from "../support/nginx.ts";
import { send } from "../support/raw.ts";
import { open, type Seen, type SocketUpstream, socketUpstream, type Talk } from "../support/sockets.ts";
import { until } from "../support/until.ts";
import { httpUpstream } from "../support/upstream.ts";

const SECRET = "provider-secret-0123456789";
const LIMITED = "limited-key-0123456789abcdef";
const MORE_LIMITED = ["one", "two", "three", "four"].map((name) => `limited-${name}-0123456789abcdef`);
const UPGRADE =
  "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection;";

async function talking(t: Test, talk?: Talk, more = ""): Promise<{ upstream: SocketUpstream; running: Running }> {
  const upstream = await socketUpstream(t, talk);
  return { upstream, running: await gateway(t, upstream.port, more) };
}

const gateway = (t: Test, port: number, more = "", share = "all") =>
  startGateway(
    t,
    `providers:
  vendor: { url: "http://127.0.0.1:${port}/v1", credential: ${SECRET}, speaks: [openai-responses], websocket: true }
  deaf: { url: "http://127.0.0.1:${port}/v1", speaks: [openai-chat] }
share: ${share}
models:
  voice: { targets: ["vendor:gpt-real time"] }
  other: { targets: [vendor:other] }
  text: { targets: [deaf:x] }
keys:
  test: { key: ${KEY} }
  limited: { key: ${LIMITED}, models: [voice] }
${MORE_LIMITED.map((key, i) => `  limited${i}: { key: ${key}, models: [voice] }\n`).join("")}paths:
  /v1/realtime: { protocol: openai-realtime }
  /v1/responses: { protocol: openai-responses }
  /vendors/one/*: { pass: vendor, use: [auth, usage] }
${more}`,
  );

const bearer = { authorization: `Bearer ${KEY}` };
const address = ({ port }: { port: number }, path = "/v1/realtime?model=voice") => `ws://127.0.0.1:${port}${path}`;

async function ledger({ gateway }: Running) {
  await gateway.stores.ledger.flush();
  return gateway.stores.ledger.recent(10);
}

const ended = ({ log }: Running) =>
  log.lines.filter(({ message }) => message === "exchange").map(({ fields }) => fields);

/** Says something, and waits for it to come back. */
async function echoed({ socket, messages }: Seen, text: string): Promise<void> {
  socket.send(text);
  await until(() => messages.includes(text), text.slice(0, 20));
}

t.test("a call that another key began cannot be joined", async (t) => {
  const upstream = await socketUpstream(t);
  const running = await gateway(t, upstream.port, "", "key");
  for (const query of ["call_id=rtc_1", "Call_ID=rtc_1", "call_id[]=rtc_1"])
    await t.rejects(open(address(running, `/v1/realtime?model=voice&${query}`), [], bearer), /^404/, query);
  t.equal(upstream.handshakes.length, 0);
});

t.test("a key limited to some models may send nothing that could name another one; other keys may", async (t) => {
  const { upstream, running } = await talking(t);
  for (const query of [
    ...["deployment=other", "call_id=rtc_1", "Model=other", "model[]=other", "Call_ID=1"],
    ...["model_id=other", "models=other", "engine=other", "deployment-name=other"],
  ]) {
    const path = `/v1/realtime?model=voice&${query}`;
    await t.rejects(
      open(address(running, path), [], { authorization: `Bearer ${LIMITED}` }),
      /^403.*could name/,
      query,
    );
    const { socket, closed } = await open(address(running, path), [], bearer);
    socket.close();
    await closed;
    t.match(upstream.handshakes.at(-1)?.url, query);
  }
  const path = "/v1/realtime?model=voice&include[]=a&include[]=b";
  const { socket, closed } = await open(address(running, path), [], { authorization: `Bearer ${LIMITED}` });
  socket.close();
  await closed;
  t.equal(upstream.handshakes.length, 10);
});

t.test("azure's clients are served: the deployment of their query is the model, also below a folder", async (t) => {
  const { upstream, running } = await talking(t);
  const azure = "/openai/realtime?api-version=2025-04-01-preview";
  for (const path of [`${azure}&deployment=voice`, "/openai/v1/realtime?model=voice", `${azure}&model=voice`])
    for (const key of [KEY, LIMITED]) {
      const { socket, closed } = await open(address(running, path), [], { "api-key": key });
      socket.close();
      await closed;
      t.equal(upstream.handshakes.at(-1)?.url, "/v1/realtime?model=gpt-real%20time", path);
    }
  t.equal((await ledger(running))[0]?.model, "voice");
  const limited = { "api-key": LIMITED };
  await t.rejects(open(address(running, `${azure}&deployment=other`), [], limited), /^403/);
  await t.rejects(open(address(running, `${azure}&deployment=voice&model=other`), [], limited), /^400.*twice/);
  await t.rejects(open(address(running, "/openai/realtime?deployment=voice"), [], limited), /^426/);
  t.equal(upstream.handshakes.length, 6);
});

t.test(
  "a key is accepted wherever clients send it, and never sent to the provider; the model is renamed",
  async (t) => {
    const { upstream, running } = await talking(t);
    const ways: [headers: Record<string, string>, protocols: string[], query: string][] = [
      [bearer, [], ""],
      [{ "x-api-key": KEY }, ["realtime"], ""],
      [{}, [], `&key=${KEY}`],
      [{}, ["realtime", `openai-insecure-api-key.${KEY}`, "openai-organization.org-1", "openai-project.p"], ""],
      [{}, [`openai-insecure-api-key.${KEY}`], "&intent=x%20y"],
    ];
    for (const [headers, protocols, query] of ways) {
      const seen = await open(address(running, `/v1/realtime?model=voice${query}`), protocols, {
        ...headers,
        cookie: "a=1",
        "x-unknown": "1",
        "openai-beta": "realtime=v1",
      });
      await echoed(seen, '{"type":"hello"}');
      t.equal(seen.socket.protocol, protocols[0] ?? "");
      t.equal(seen.socket.extensions, "");
      const { rawHeaders, url, headers: came } = upstream.handshakes.at(-1) as (typeof upstream.handshakes)[number];
      t.notMatch(rawHeaders.join("\n") + url, new RegExp(`${KEY}|cookie|x-unknown|org-1|permessage`, "i"));
      t.equal(came.authorization, `Bearer ${SECRET}`);
      t.equal(came["openai-beta"], "realtime=v1");
      t.equal(came["sec-websocket-protocol"], protocols.includes("realtime") ? "realtime" : undefined);
      t.equal(url, `/v1/realtime?model=gpt-real%20time${query.includes("intent") ? "&intent=x%20y" : ""}`);
      seen.socket.close(1000);
      t.equal(await seen.closed, 1000);
    }
    await until(() => ended(running).length === ways.length);
    t.notMatch(JSON.stringify(running.log.lines), KEY);
  },
);

t.test("refusals before the upgrade are plain HTTP in the caller's dialect", async (t) => {
  const { upstream, running } = await talking(t);
  const refused = async (path: string, headers: Record<string, string> = bearer) => {
    const error = await open(address(running, path), [], headers).then(
      ({ socket }) => {
        socket.terminate();
        return { message: "open" };
      },
      (error: Error) => error,
    );
    return error.message.slice(0, 3) + (/"code":"(\w+)"/.exec(error.message)?.[1] ?? "");
  };
  t.same(
    [
      await refused("/v1/realtime?model=voice", {}),
      await refused("/v1/realtime?model=voice", { authorization: "Bearer nobody-0123456789abcdef" }),
      await refused("/v1/realtime?model=nobody"),
      await refused("/v1/realtime?model=other", { authorization: `Bearer ${LIMITED}` }),
      await refused("/v1/realtime"),
      await refused("/v1/realtime?model=text"),
      await refused("/v1/realtime?model=voice&model=other"),
      await refused("/v1/realtime?key=one&model=voice&key=two"),
      await refused("/v1/responses"),
      await refused("/ws/of.Some.Service.BidiGenerateContent"),
      await refused("/vendors/one/x", { authorization: `Bearer ${LIMITED}` }),
    ],
    [
      ...["401invalid_api_key", "401invalid_api_key", "404model_not_found", "403key_not_allowed", "400invalid_field"],
      ...[
        "426upgrade_required",
        "400bad_target",
        "400bad_target",
        "426upgrade_required",
        "426upgrade_required",
        "403key_not_allowed",
      ],
    ],
  );
  t.equal(upstream.handshakes.length, 0);
  const plain = await fetch(`${running.url}/v1/realtime?model=voice`, { headers: asking() });
  t.same([plain.status, plain.headers.get("upgrade")], [426, "websocket"]);
  t.match(await plain.json(), { error: { code: "websocket_only" } });
  const azure = await fetch(`http://127.0.0.1:${running.port}/openai/realtime?api-version=1&deployment=voice`);
  t.match(await azure.json(), { error: { code: "websocket_only" } });
  const odd = await send(
    running.port,
    "GET /v1/realtime HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
  );
  t.match(odd.text, /^HTTP\/1.1 400 .*connection: close/s);
  const other = await send(running.port, "GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n");
  t.same(other.statuses, [200]);
  await until(() => ended(running).length === 7);
});

t.test("there is one ledger entry for a connection, with the total usage of its responses", async (t) => {
  const done = (usage: object) => JSON.stringify({ type: "response.done", response: { usage } });
  const { running } = await talking(t, (message) =>
    message === "ask" ? done({ input_tokens: 10, output_tokens: 4 }) : message,
  );
  const seen = await open(address(running), [], bearer);
  seen.socket.send("ask");
  await until(() => seen.messages.length === 1);
  await echoed(seen, "x".repeat(200_000));
  seen.socket.send("ask");
  await until(() => seen.messages.length === 3);
  t.same(await ledger(running), []);
  seen.socket.close(4001);
  await seen.closed;
  await until(() => ended(running).length === 1);
  const entries = await ledger(running);
  t.match(entries, [
    {
      ...{ model: "voice", target: "vendor:gpt-real time", protocol: "openai-realtime", operation: "realtime" },
      ...{ status: 101, outcome: "completed", streaming: true, source: "reported", key: "test" },
      usage: { in: { total: 20 }, out: { total: 8 } },
    },
  ]);
  t.match(ended(running), [{ status: 101, close: 4001, tokens_in: 20, tokens_out: 8 }]);
  t.ok((entries[0]?.bytes?.up ?? 0) > 200_000 && (entries[0]?.bytes?.down ?? 0) > 200_000);
});

for (const way of WAYS) {
  t.test(
    `messages of any size pass ${way}, close codes too, and when either side fails the other is closed`,
    async (t) => {
      const { upstream, running } = await talking(t, (message) => (message === "close" ? 4002 : message));
      const port = await entrance(t, way, running.port, UPGRADE);
      if (port === undefined) return;
      const one = await open(address({ port }), [], bearer);
      for (const size of [0, 1, 125, 126, 65_535, 65_536, 3_000_000]) await echoed(one, "y".repeat(size));
      one.socket.send("close");
      t.equal(await one.closed, 4002, "the provider's code reaches the client");

      const two = await open(address({ port }), [], bearer);
      two.socket.close(4003);
      await until(() => upstream.codes.includes(4003), "the client's code to reach the provider");

      const three = await open(address({ port }), [], bearer);
      upstream.sockets.at(-1)?.terminate();
      t.equal(await three.closed, 1006, "a provider's death is a client's abnormal end");

      const four = await open(address({ port }), [], bearer);
      four.socket.terminate();
      await until(() => upstream.codes.at(-1) === 1006, "the provider to hear of the client's death");
      await until(() => ended(running).length === 4);
      t.match(
        ended(running).map(({ close, outcome }) => [close, outcome]),
        [
          [4002, "completed"],
          [4003, "completed"],
          [1006, "upstream_error"],
          [1006, "aborted"],
        ],
      );
    },
  );
}

t.test("a socket below a pass-through path connects to its provider, whatever its messages contain", async (t) => {
  const { upstream, running } = await talking(t);
  const seen = await open(address(running, "/vendors/one/any/thing?a=b"), ["p"], bearer);
  await echoed(seen, "hello");
  t.match(upstream.handshakes, [{ url: "/v1/any/thing?a=b", headers: { authorization: `Bearer ${SECRET}` } }]);
  seen.socket.close();
  await seen.closed;
  await until(() => ended(running).length === 1);
  t.match(await ledger(running), [{ target: "vendor:*", status: 101, source: "none" }]);
});

t.test("no socket is opened at a provider that is switched off; open ones continue", async (t) => {
  const { upstream, running } = await talking(t);
  const paths = ["/v1/realtime?model=voice", "/vendors/one/any"];
  const seen = await Promise.all(paths.map((path) => open(address(running, path), [], bearer)));
  running.gateway.switch("vendor", true);
  for (const path of paths) {
    const error = await open(address(running, path), [], bearer).catch((error) => error);
    t.match(error.message, /^503.*switched off/, path);
  }
  t.equal(upstream.handshakes.length, 2);
  for (const each of seen) {
    await echoed(each, "hello");
    each.socket.close();
  }
});

t.test(
  "the response of a provider that refuses the handshake is passed on, one that cannot be reached is a 502",
  async (t) => {
    const refusing = await httpUpstream((_, reply) =>
      reply
        .writeHead(429, { "content-type": "application/json", "retry-after": "7", "set-cookie": "a=1" })
        .end('{"no":1}'),
    );
    const upstream = await socketUpstream(t);
    t.teardown(() => refusing.close());
    for (const [port, expected] of [
      [Number(refusing.origin.port), /^429 {"no":1}/],
      [1, /^502 .*upstream_unreachable/],
    ] as const) {
      const running = await gateway(t, port);
      const error = await open(address(running), [], bearer).catch((error) => error);
      t.match(error.message, expected);
      if (port !== 1) t.match(error.headers, { "retry-after": "7", "set-cookie": undefined });
      await until(() => ended(running).length === 1);
      t.match(await ledger(running), [{ status: port === 1 ? 502 : 429, model: "voice" }]);
    }
    // What answers a handshake with a page is no provider of sockets.
    upstream.sockets.length = 0;
    const page = await httpUpstream((_, reply) => reply.end("page"));
    t.teardown(() => page.close());
    const running = await gateway(t, Number(page.origin.port));
    t.match((await open(address(running), [], bearer).catch((error) => error)).message, /^502/);
  },
);

t.test("idle sockets and messages that are too large end with the matching close code", async (t) => {
  const brief = await talking(t, undefined, "sockets: { idle: 150ms }\n");
  const idle = await open(address(brief.running), [], bearer);
  idle.socket.send("hello");
  t.equal(await idle.closed, 1001);
  await until(() => brief.upstream.codes.at(-1) === 1001, "the provider to be told");
  await until(() => ended(brief.running).length === 1);
  t.match(ended(brief.running), [{ close: 1001 }]);

  const { running } = await talking(
    t,
    (message) => (message === "much" ? "z".repeat(3000) : message),
    "sockets: { message: 2KiB }\n",
  );

  const large = await open(address(running), [], bearer);
  await echoed(large, "a".repeat(2000));
  large.socket.send("a".repeat(3000));
  t.equal(await large.closed, 1009);

  const down = await open(address(running), [], bearer);
  down.socket.send("much");
  t.equal(await down.closed, 1009);

  const pieces = await open(address(running), [], bearer);
  for (let i = 0; i < 5; i++) pieces.socket.send("a".repeat(500), { fin: i === 4 });
  t.equal(await pieces.closed, 1009, "fragments count together");

  const judged = await open(address(running), [], { authorization: `Bearer ${LIMITED}` });
  judged.socket.send("a".repeat(3000));
  t.equal(await judged.closed, 1009, "also where messages are checked before they are passed on");
  await until(() => ended(running).length === 4);
  t.same(
    ended(running).map(({ close }) => close),
    [1009, 1009, 1009, 1009],
  );
});

t.test("incomplete messages of one key have a bound in total; what exceeds it ends with 1013", async (t) => {
  const { upstream, running } = await talking(t, (message) => String(message.length));
  const limited = { authorization: `Bearer ${LIMITED}` };
  const half = "a".repeat(9 * 1024 * 1024);
  const both = [await open(address(running), [], limited), await open(address(running), [], limited)];
  for (const { socket } of both) socket.send(half, { fin: false });
  const [code, refused] = await Promise.race(both.map(async (one) => [await one.closed, one] as const));
  t.equal(code, 1013);
  t.match(refused?.messages, [/"error".*"overloaded|"error".*incomplete/]);
  await until(() => ended(running).length === 1);
  t.match(ended(running), [{ close: 1013, error: { code: "overloaded" } }]);
  const other = both.find((one) => one !== refused) as Seen;
  other.socket.send("a");
  await until(() => other.messages.includes(String(half.length + 1)), "the other one's message");
  t.equal(upstream.messages.length, 1, "no part of the refused message");
  const again = await open(address(running), [], limited);
  again.socket.send(half);
  await until(() => again.messages.includes(String(half.length)), "a message where others have ended");
});

t.test("the incomplete message of a client that has left takes no room from others", async (t) => {
  const { running } = await talking(t, (message) => String(message.length));
  const limited = { authorization: `Bearer ${LIMITED}` };
  const half = "a".repeat(9 * 1024 * 1024);
  for (const left of [1, 2]) {
    const { socket } = await open(address(running), [], limited);
    socket.send(half, { fin: false });
    await until(() => socket.bufferedAmount === 0, "half a message to be sent");
    socket.terminate();
    await until(() => ended(running).length === left);
  }
  t.match(ended(running), [{ outcome: "aborted" }, { outcome: "aborted" }]);
  const other = await open(address(running), [], limited);
  other.socket.send(half);
  await until(() => other.messages.includes(String(half.length)), "a message where others have left");
});

t.test("incomplete messages of several keys give way to that of a key that has less", async (t) => {
  const { running } = await talking(t, (message) => String(message.length));
  const half = "a".repeat(8 * 1024 * 1024);
  const held: Seen[] = [];
  for (const key of [...MORE_LIMITED, ...MORE_LIMITED]) {
    const one = await open(address(running), [], { authorization: `Bearer ${key}` });
    one.socket.send(half, { fin: false });
    held.push(one);
    await until(() => one.socket.bufferedAmount === 0, "half a message to be sent");
  }
  const other = await open(address(running), [], { authorization: `Bearer ${LIMITED}` });
  other.socket.send("b".repeat(1024 * 1024), { fin: false });
  t.equal(await Promise.race([...held, other].map(({ closed }) => closed)), 1013);
  other.socket.send("b");
  await until(() => other.messages.includes(String(1024 * 1024 + 1)), "its message to pass");
  await until(() => ended(running).length === 1);
  t.match(ended(running), [{ close: 1013, error: { code: "overloaded" } }]);
});

t.test(
  "where messages are read, one that stops in the middle ends with 1008; elsewhere it may take its time",
  async (t) => {
    const { running } = await talking(t, undefined, "body: { idle: 200ms }\n");
    const unread = await open(address(running), [], bearer);
    unread.socket.send("un", { fin: false });
    const read = await open(address(running), [], { authorization: `Bearer ${LIMITED}` });
    await echoed(read, "hello");
    read.socket.send("sto", { fin: false });
    t.equal(await read.closed, 1008);
    await until(() => ended(running).length === 1);
    t.match(ended(running), [{ close: 1008, error: { code: "body_timeout" } }]);
    unread.socket.send("read");
    await until(() => unread.messages.includes("unread"), "the other message");
  },
);

t.test("the usage of responses that a client has not read before it left is recorded", async (t) => {
  const done = JSON.stringify({ type: "response.done", response: { usage: { input_tokens: 10, output_tokens: 4 } } });
  const { upstream, running } = await talking(t, (_message, socket) => {
    socket.send("a".repeat(200_000));
    return done;
  });
  const seen = await open(address(running), [], bearer);
  (seen.socket as unknown as { _socket: { pause(): void } })._socket.pause();
  const responses = 100;
  for (let i = 0; i < responses; i++) seen.socket.send("ask");
  await until(() => upstream.messages.length === responses, "all of them to be asked for");
  let waiting = 0;
  const isStuck = () => {
    const before = waiting;
    waiting = upstream.sockets[0]?.bufferedAmount ?? 0;
    return waiting > 0 && waiting === before;
  };
  await until(isStuck, "the provider to wait for the client");
  seen.socket.terminate();
  await until(() => ended(running).length === 1);
  t.match(ended(running), [{ close: 1006, outcome: "aborted" }]);
  t.match(await ledger(running), [{ usage: { in: { total: 10 * responses }, out: { total: 4 * responses } } }]);
  await until(() => upstream.codes.length === 1, "the provider's connection to end");
});

t.test("a drain closes every socket with 1012, also in the middle of a stream of messages", async (t) => {
  let talkative: NodeJS.Timeout | undefined;
  t.teardown(() => clearInterval(talkative));
  const { upstream, running } = await talking(t, (message, socket) => {
    if (message !== "talk") return message;
    talkative = setInterval(() => {
      for (let i = 0; i < 20; i++) socket.send("w".repeat(10_000));
    }, 1);
    return undefined;
  });
  const quiet = await open(address(running), [], bearer);
  const busy = await open(address(running), [], bearer);
  busy.socket.send("talk");
  await until(() => busy.messages.length > 100);
  const stopped = running.gateway.stop({ drain: 5000 });
  t.same(await Promise.all([quiet.closed, busy.closed]), [1012, 1012]);
  clearInterval(talkative);
  t.ok(
    busy.messages.every((message) => message.length === 10_000),
    "no message was truncated",
  );
  await stopped;
  await until(() => upstream.codes.length === 2);
});

t.test("a client that disconnects during the handshake ends the provider's handshake", async (t) => {
  const silent = await import("../support/upstream.ts").then(({ rawUpstream }) => rawUpstream(() => {}));
  t.teardown(() => silent.close());
  const running = await gateway(t, Number(silent.origin.port));
  for (const leave of ["end", "resetAndDestroy"] as const) {
    const socket = connect(running.port, "127.0.0.1");
    socket.on("error", () => {});
    await once(socket, "connect");
    socket.write(
      `GET /v1/realtime?model=voice HTTP/1.1\r\nhost: x\r\nx-api-key: ${KEY}\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${Buffer.alloc(16).toString("base64")}\r\n\r\n`,
    );
    await until(() => silent.open === 1, "the provider to be asked");
    socket[leave]();
    await until(() => silent.open === 0, `the provider to hear of ${leave}`);
  }
  await until(() => ended(running).length === 2);
  t.match(
    ended(running).map(({ outcome, status }) => [outcome, status]),
    [
      ["aborted", 499],
      ["aborted", 499],
    ],
  );
});

t.test(
  "a client that resets its connection at a refusal ends nothing but itself (fix: our own error listener)",
  async (t) => {
    const { running } = await talking(t);
    for (let i = 0; i < 20; i++) {
      const socket = connect(running.port, "127.0.0.1");
      socket.on("error", () => {});
      await once(socket, "connect");
      const head = `GET /v1/realtime?model=voice HTTP/1.1\r\nhost: x\r\nx-api-key: nobody-0123456789abcdef\r\nconnection: upgrade\r\n`;
      const key = Buffer.alloc(16).toString("base64");
      socket.write(`${head}upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`);
      await new Promise((later) => setImmediate(later));
      socket.resetAndDestroy();
      await once(socket, "close");
    }
    await until(() => ended(running).length === 20);
    const { socket } = await open(address(running), [], bearer);
    t.same([...new Set(ended(running).map(({ status }) => status))], [401], "all refused, and the next is let in");
    socket.terminate();
  },
);
