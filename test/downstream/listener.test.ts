import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import t from "tap";
import { keptSocket, Listener } from "../../src/downstream/listener.ts";

t.test("it gives each connection, and takes no more once it is closed; those that are open stay", async (t) => {
  const taken: Socket[] = [];
  const listener = new Listener({ host: "127.0.0.1", port: 0 }, (socket) => taken.push(socket.resume()));
  const { port } = await listener.listen();
  t.notOk(listener.kept);
  const client = connect(port, "127.0.0.1");
  await once(client, "connect");
  while (taken.length === 0) await new Promise(setImmediate);
  listener.close();
  listener.close();
  const refused = connect(port, "127.0.0.1");
  t.match((await once(refused, "error"))[0], { code: "ECONNREFUSED" });
  taken[0]?.end("still here");
  t.equal(String((await once(client, "data"))[0]), "still here");
  client.destroy();
});

t.test("an address that is taken is told", async (t) => {
  const other = createServer().listen(0, "127.0.0.1");
  t.teardown(() => other.close());
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await t.rejects(new Listener({ host: "127.0.0.1", port }, () => {}).listen(), { code: "EADDRINUSE" });
});

t.test("kept sockets are those of this process, by name, and else the public side's", async (t) => {
  const mine = { LISTEN_PID: String(process.pid) };
  t.same(keptSocket("listen", { ...mine, LISTEN_FDS: "1" }), { fd: 3 });
  t.same(keptSocket("admin", { ...mine, LISTEN_FDS: "1" }), undefined);
  t.same(keptSocket("listen", { ...mine, LISTEN_FDS: "2", LISTEN_FDNAMES: "admin:public" }), { fd: 4 });
  t.same(keptSocket("admin", { ...mine, LISTEN_FDS: "2", LISTEN_FDNAMES: "public:admin" }), { fd: 4 });
  t.same(keptSocket("listen", { LISTEN_PID: "1", LISTEN_FDS: "1" }), undefined, "another process's");
  t.same(keptSocket("listen", {}), undefined);
  t.ok(new Listener({ fd: 3 }, () => {}).kept);
});
