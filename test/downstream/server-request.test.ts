import { once } from "node:events";
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { ServerRequest } from "../../src/downstream/server-request.ts";

t.test("lines contains all header lines as they arrived, headers those that the gateway reads", async (t) => {
  const seen: ServerRequest[] = [];
  const server = createServer({ IncomingMessage: ServerRequest }, (incoming, reply) => {
    seen.push(incoming);
    incoming.resume();
    reply.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const headers = ["Host", "h", "X-Some", "1", "x-some", "2", "Content-Type", "text/plain", "TE", "trailers"];
  const asking = request({ port: (server.address() as AddressInfo).port, method: "POST", headers, agent: false });
  asking.end();
  await once(asking, "response");
  const [incoming] = seen;
  t.same(incoming?.headerList.lines.slice(0, 10), headers);
  t.equal(incoming?.headerList, incoming?.headerList);
  t.same(
    [incoming?.headers.host, incoming?.headers.te, incoming?.headers["content-type"], incoming?.headers.expect],
    ["h", "trailers", "text/plain", undefined],
  );
  t.equal(incoming?.headers, incoming?.headers);
});

t.test("a body is delivered as it arrives, to its end; a released one is read and discarded", async (t) => {
  const told: string[] = [];
  let late: boolean | undefined;
  const server = createServer({ IncomingMessage: ServerRequest }, async (incoming, reply) => {
    if (incoming.url === "/late") {
      await once(incoming, "readable");
      late = incoming.deliverTo({ onChunk: () => {}, onEnd: () => {} });
      incoming.resume();
    } else
      t.ok(
        incoming.deliverTo({
          onChunk(piece) {
            told.push(piece.toString());
            if (incoming.url === "/half") incoming.detachConsumer();
          },
          onEnd: () => void told.push(`end ${incoming.complete}`),
        }),
      );
    incoming.on("end", () => reply.end(incoming.url));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  for (const [path, expected] of [
    ["/whole", ["one", "two", "end true"]],
    ["/half", ["one"]],
    ["/late", []],
  ] as const) {
    told.length = 0;
    const { port } = server.address() as AddressInfo;
    const asking = request({ port, path, method: "POST", agent: false });
    asking.write("one");
    setTimeout(() => asking.end("two"), 20);
    const [reply] = await once(asking, "response");
    t.equal((await Array.fromAsync(reply)).join(""), path);
    t.same(told, expected);
  }
  t.equal(late, false);
});

t.test("a body on hold is buffered as it arrives, for whoever reads it later", async (t) => {
  const told: string[] = [];
  const server = createServer({ IncomingMessage: ServerRequest }, async (incoming, reply) => {
    incoming.hold();
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (incoming.url === "/handed") {
      t.ok(
        incoming.deliverTo({
          onChunk: (piece) => void told.push(`${piece.length}`),
          onEnd: () => reply.end(told.join(" ")),
        }),
      );
    } else if (incoming.url === "/streamed") reply.end(String(Buffer.concat(await incoming.toArray()).length));
    else reply.end("unread");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  const { port } = server.address() as AddressInfo;
  const ask = async (path: string, body: Buffer): Promise<string> => {
    const asking = request({ port, path, method: "POST", agent, headers: { "content-length": body.length } });
    asking.end(body);
    const [reply] = await once(asking, "response");
    return (await Array.fromAsync(reply)).join("");
  };
  t.equal(await ask("/handed", Buffer.alloc(100)), "100");
  t.equal(await ask("/streamed", Buffer.alloc(100)), "100");
  t.equal(await ask("/unread", Buffer.alloc(100)), "unread");
  const large = Buffer.alloc(3 << 20);
  told.length = 0;
  await ask("/handed", large);
  t.equal(
    told.reduce((sum, length) => sum + Number(length), 0),
    large.length,
  );
  t.equal(await ask("/streamed", large), String(large.length));
  t.equal(await ask("/unread", large), "unread");
  t.equal(await ask("/streamed", large), String(large.length), "and the connection stays open");
});
