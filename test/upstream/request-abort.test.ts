import type { Socket } from "node:net";
import { Readable } from "node:stream";
import t, { type Test } from "tap";
import type { AbortListener } from "../../src/core/exchange.ts";
import type { OutgoingRequest } from "../../src/upstream/request.ts";
import type { UpstreamResponse } from "../../src/upstream/response.ts";
import { proxied } from "../support/proxied.ts";
import { until } from "../support/until.ts";
import { CHUNKED, client, delayedLookup, failed, OK, outgoing, type Script, whole } from "../support/upstream.ts";

t.test("a client that disconnects ends the attempt in every state", async (t) => {
  const state = async (
    t: Test,
    script: Script,
    changes: Partial<OutgoingRequest>,
    act: (sent: Promise<UpstreamResponse>, leave: () => void, seen: { sockets: Socket[] }) => Promise<unknown>,
  ) => {
    const seen = { sockets: [] as Socket[] };
    const { upstream, proxy } = await proxied(t, (socket, request) => {
      seen.sockets.push(socket);
      return script(socket, request);
    });
    const who = client();
    const sent = proxy.send(outgoing(upstream.origin, changes), who);
    sent.catch(() => {});
    await act(sent, () => who.leave(), seen);
    await until(
      () => seen.sockets.length > 0 && seen.sockets.every((socket) => socket.destroyed),
      "the upstream's close",
    );
    t.equal(who.listeners, 0, "no listener is left");
  };

  await t.test("while waiting for the head", (t) =>
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

  await t.test("while large chunks wait for a provider that does not read", (t) =>
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

  await t.test("while the response streams", (t) =>
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

  await t.test("while nobody reads the response", (t) =>
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

  await t.test("while the response is paused", (t) =>
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
  "a client that disconnects while its connection is being established is reported at once, and nothing is sent",
  async (t) => {
    const held = delayedLookup();
    let requests = 0;
    const { upstream, proxy } = await proxied(t, () => requests++, { lookup: held.lookup });
    const body = new Readable({ read() {} });
    const who = client();
    const sent = proxy.send(outgoing(held.origin(upstream.origin), { body }), who);
    await until(() => held.asked() === 1);
    who.leave();
    t.match(await failed(sent), { code: "client_gone" });
    t.ok(body.destroyed);
    held.go();
    const other = proxy.send(outgoing(held.origin(upstream.origin)), who);
    await until(() => requests === 1, "the next request only");
    who.leave();
    await failed(other);
    t.equal(requests, 1);
    t.equal(upstream.connections, 1);
  },
);

t.test("a client that disconnects while its request waits for a free connection", async (t) => {
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
  const first = proxy.send(outgoing(upstream.origin, { path: "/first" }), client());
  await until(() => paths.length === 1);
  const who = client();
  const second = proxy.send(outgoing(upstream.origin, { path: "/second" }), who);
  who.leave();
  t.match(await failed(second), { code: "client_gone" });
  const third = proxy.send(outgoing(upstream.origin, { path: "/third" }), client());
  answers.shift()?.();
  t.equal((await whole(await first)).body.toString(), "ok");
  await until(() => paths.length === 2);
  answers.shift()?.();
  t.equal((await whole(await third)).body.toString(), "ok");
  t.same(paths, ["/first", "/third"]);
});

t.test("for a client that had disconnected before no connection is opened", async (t) => {
  const { upstream, proxy } = await proxied(t, () => {});
  const gone = {
    ...client(),
    addAbortListener: (listener: AbortListener) => listener.onAbort(),
  };
  const body = new Readable({ read() {} });
  t.match(await failed(proxy.send(outgoing(upstream.origin, { body }), gone)), { code: "client_gone" });
  t.ok(body.destroyed);
  t.equal(upstream.connections, 0);
});

t.test(
  "destroy closes the connection of an unfinished response, sends nothing to the sink, and may be repeated",
  async (t) => {
    const sockets: Socket[] = [];
    const { upstream, proxy } = await proxied(t, (socket) => {
      sockets.push(socket);
      socket.write(`${CHUNKED}2\r\nok\r\n`);
    });
    const who = client();
    const answer = await proxy.send(outgoing(upstream.origin), who);
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
