import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import t from "tap";
import { AcceptQueueFiller, acceptQueueLength, reachableAddress } from "../../src/downstream/accept-queue.ts";

async function server(
  t: { teardown(fn: () => unknown): unknown },
  take: (socket: Socket) => void = () => {},
  host = "127.0.0.1",
) {
  const server = createServer(take).listen(0, host);
  t.teardown(() => server.close());
  await once(server, "listening");
  return server.address() as AddressInfo;
}

t.test("an address is reached on the machine itself, whatever address is listened on", async (t) => {
  t.same(reachableAddress({ address: "0.0.0.0", family: "IPv4", port: 1 }), { host: "127.0.0.1", port: 1 });
  const { address, port } = await server(t, undefined, "::").catch(() => server(t, undefined, "0.0.0.0"));
  const client = connect(reachableAddress({ address, family: "IPv6", port }));
  await once(client, "connect");
  client.destroy();
  t.same(reachableAddress({ address: "10.1.2.3", family: "IPv4", port: 1 }), { host: "10.1.2.3", port: 1 });
});

t.test("the system reports how many connections wait at a port", { skip: process.platform !== "linux" }, async (t) => {
  // More than the system tells of in one read: whichever of them stands first.
  const listened = await Promise.all(Array.from({ length: 60 }, () => server(t)));
  for (const each of listened) t.equal(acceptQueueLength(each), 0);
  const [address] = listened as [AddressInfo];
  const plug = new AcceptQueueFiller(address);
  await new Promise<void>((resolve) => process.nextTick(resolve));
  t.equal(acceptQueueLength(address), 3, "until the event loop turns");
  plug.close();
  const ipv6 = await server(t, undefined, "::1").catch(() => undefined);
  t.ok(ipv6 === undefined || acceptQueueLength(ipv6) === 0, "IPv6, unless the system has none");
  t.equal(acceptQueueLength({ port: 1, family: "IPv4" }), undefined, "no listener");
});

t.test("it recognises its own among others, and reports whether all that waits is its own", async (t) => {
  const others: Socket[] = [];
  let plug: AcceptQueueFiller | undefined;
  const { port, ...rest } = await server(t, (socket) => {
    if (!plug?.claim(socket)) others.push(socket);
  });
  t.teardown(() => others.forEach((each) => void each.destroy()));
  const waits = () => connect(port, "127.0.0.1").on("error", () => {});
  waits();
  plug = new AcceptQueueFiller({ port, ...rest });
  t.equal(await plug.settled, true, "one arrived before");
  t.equal(others.length, 1);
  plug.close();
  plug = new AcceptQueueFiller({ port, ...rest });
  waits();
  t.equal(await plug.settled, process.platform !== "linux", "one arrived after");
  plug.close();
});

t.test("a client of another address with the port of an own connection is not taken for that", async (t) => {
  const taken: Socket[] = [];
  const address = await server(t, (socket) => void taken.push(socket), "0.0.0.0");
  const filler = new AcceptQueueFiller(address);
  while (taken.length < 3) await new Promise((resolve) => setImmediate(resolve));
  const [own] = taken as [Socket];
  const { port } = address;
  const client = connect({ port, host: "127.0.0.1", localAddress: "127.0.0.2", localPort: own.remotePort as number });
  while (taken.length < 4) await new Promise((resolve) => setImmediate(resolve));
  t.notOk(filler.claim(taken[3] as Socket));
  t.notOk(taken[3]?.destroyed);
  t.ok(filler.claim(own));
  filler.close();
  for (const socket of [client, ...taken]) socket.destroy();
});

t.test("a port that cannot be reached, or is closed, is reported", async (t) => {
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const address = gone.address() as AddressInfo;
  gone.close();
  t.equal(await new AcceptQueueFiller(address).settled, false);
  const closed = new AcceptQueueFiller(await server(t));
  closed.close();
  t.equal(await closed.settled, false);
});
