import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import t from "tap";
import { AcceptProbe } from "../../src/downstream/accept-probe.ts";

t.test("it measures how long a connection waits to be accepted, and recognises its own among others", async (t) => {
  const known: boolean[] = [];
  const server = createServer((socket) => {
    const own = newcomer.claim(socket);
    known.push(own);
    if (!own) socket.on("error", () => {}).destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => server.close());
  const address = server.address() as AddressInfo;
  const newcomer = new AcceptProbe(address);
  t.equal(newcomer.waitTime, 0);
  newcomer.send();
  newcomer.send();
  // The system has it before anybody turns to it.
  await new Promise((resolve) => process.nextTick(resolve));
  const until = performance.now() + 120;
  while (performance.now() < until);
  t.ok(newcomer.waitTime >= 120, "while it waits");
  while (known.length === 0) await new Promise((resolve) => setImmediate(resolve));
  t.ok(newcomer.waitTime >= 120, "and when it has been accepted");
  await once(
    connect(address.port, "127.0.0.1").on("error", () => {}),
    "close",
  );
  t.same(known, [true, false], "one was sent, the other is unknown");
  newcomer.reset();
  t.equal(newcomer.waitTime, 0);
});

t.test("a client of another address with the probe's port is not taken for it", async (t) => {
  const taken: Socket[] = [];
  const server = createServer((socket) => void taken.push(socket)).listen(0, "0.0.0.0");
  await once(server, "listening");
  t.teardown(() => server.close());
  const probe = new AcceptProbe(server.address() as AddressInfo);
  probe.send();
  await once(server, "connection");
  const [own] = taken as [Socket];
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2", localPort: own.remotePort as number });
  await once(server, "connection");
  t.equal(taken[1]?.remotePort, own.remotePort);
  t.notOk(probe.claim(taken[1] as Socket));
  t.notOk(taken[1]?.destroyed);
  t.ok(probe.claim(own));
  client.destroy();
  taken[1]?.destroy();
});

t.test("if nothing can be reached it reports nothing, and a closed one leaves nothing behind", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  const newcomer = new AcceptProbe(address);
  newcomer.send();
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(newcomer.waitTime, 0);
  newcomer.send();
  newcomer.close();
  t.equal(newcomer.waitTime, 0);
});
