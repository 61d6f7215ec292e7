import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { Worker } from "node:worker_threads";
import t from "tap";
import { peerAddress } from "../../src/core/networks.ts";
import { inheritedSocket, Listener, tryAddress } from "../../src/downstream/listener.ts";
import { boundSocket } from "../support/kept-socket.ts";
import { EVERY_CASE } from "../support/sample.ts";
import { until } from "../support/until.ts";

t.test("it delivers each connection, and none once it is closed; open ones continue", async (t) => {
  const taken: Socket[] = [];
  const listener = new Listener({ host: "127.0.0.1", port: 0 }, (socket) => taken.push(socket.resume()));
  const { port } = await listener.listen();
  t.notOk(listener.isInherited);
  const client = connect(port, "127.0.0.1");
  await once(client, "connect");
  while (taken.length === 0) await new Promise(setImmediate);
  await Promise.all([listener.close(), listener.close()]);
  const refused = connect(port, "127.0.0.1");
  t.match((await once(refused, "error"))[0], { code: "ECONNREFUSED" });
  taken[0]?.end("still here");
  t.equal(String((await once(client, "data"))[0]), "still here");
  client.destroy();
});

t.test("a listener for all addresses takes IPv4, and IPv6 where the system has it", async (t) => {
  const taken: Socket[] = [];
  const listener = new Listener({ host: "::", port: 0 }, (socket) => taken.push(socket.resume()));
  const { port } = await listener.listen();
  const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
  const hosts = ["127.0.0.1", ...(hasIpv6 ? ["::1"] : [])];
  for (const [at, host] of hosts.entries()) {
    const client = connect(port, host);
    t.teardown(() => client.destroy());
    await once(client, "connect");
    while (taken.length <= at) await new Promise(setImmediate);
    t.equal(peerAddress(taken[at] as Socket), host);
  }
  for (const socket of taken) socket.destroy();
  await listener.close();
});

/** Listeners that are closed under connections that come as fast as they are answered. */
const CLOSINGS = Number(process.env["GATEWAY_TEST_CLOSINGS"] ?? (EVERY_CASE ? 3 : 1));

/**
 * Asks at a port until it is refused, from a thread of its own, and tells how often it was answered and how often it lost its
 * connection.
 */
const ASKING = `
const { connect } = require("node:net");
const { parentPort, workerData } = require("node:worker_threads");
const asked = () => new Promise((resolve) => {
  let connected = false;
  const socket = connect(workerData, "127.0.0.1");
  socket.once("connect", () => { connected = true; socket.write("hello"); });
  socket.once("data", () => { resolve("answered"); socket.destroy(); });
  socket.on("error", () => resolve(connected ? "lost" : "refused"));
});
const counts = { answered: 0, lost: 0, refused: 0 };
Promise.all(Array.from({ length: 12 }, async () => {
  for (let end = ""; end !== "refused"; counts[end]++) end = await asked();
})).then(() => parentPort.postMessage(counts));`;

t.test(
  "connections that the system has accepted are accepted before it closes: none is reset",
  { skip: process.platform !== "linux" },
  async (t) => {
    for (let i = 0; i < CLOSINGS; i++) {
      let taken = 0;
      const listener = new Listener({ host: "127.0.0.1", port: 0 }, (socket) => {
        const until = performance.now() + 1;
        while (performance.now() < until);
        taken++;
        socket.on("error", () => {}).once("data", () => socket.end("hello"));
      });
      const { port } = await listener.listen();
      const worker = new Worker(ASKING, { eval: true, workerData: port });
      const counts = once(worker, "message");
      while (taken < 100) await new Promise(setImmediate);
      await listener.close();
      const [{ answered, lost }] = await counts;
      t.equal(lost, 0, `of ${answered}`);
      t.equal(answered, taken);
      await worker.terminate();
    }
  },
);

const REGISTER = String(new URL("../../src/loader/register.js", import.meta.url));
/** The longest queue that the system allows. */
const MAX_BACKLOG = existsSync("/proc/sys/net/core/somaxconn")
  ? Number(readFileSync("/proc/sys/net/core/somaxconn"))
  : 0;

t.test(
  "a socket that another process keeps has room for a thousand connections until the next process accepts them",
  { skip: MAX_BACKLOG < 2000 },
  async (t) => {
    const { fd, port } = boundSocket(t);
    const own = new URL("../../src/downstream/listener.ts", import.meta.url);
    const program = `const { Listener } = await import("${own}"); await new Listener({ fd: 3 }, () => {}).listen(); process.exit();`;
    const former = spawn(process.execPath, ["--import", REGISTER, "--input-type=module", "-e", program], {
      stdio: ["ignore", "inherit", "inherit", fd],
    });
    t.same(await once(former, "exit"), [0, null]);
    let connected = 0;
    const clients = Array.from({ length: 1000 }, () => connect(port, "127.0.0.1", () => connected++));
    t.teardown(() => clients.map((client) => client.on("error", () => {}).destroy()));
    await until(() => connected === clients.length, "all of them to be connected");
    t.equal(connected, clients.length);
  },
);

t.test("an address in use is reported, and one that is tried stays free", async (t) => {
  const other = createServer().listen(0, "127.0.0.1");
  t.teardown(() => other.close());
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  const address = { host: "127.0.0.1", port };
  await t.rejects(new Listener(address, () => {}).listen(), { code: "EADDRINUSE" });
  await t.rejects(tryAddress(address), { code: "EADDRINUSE" });
  await once(other.close(), "close");
  await tryAddress(address);
  await tryAddress(address);
});

t.test("inherited sockets are those of this process, by name, otherwise the public listener's", async (t) => {
  const mine = { LISTEN_PID: String(process.pid) };
  t.same(inheritedSocket("listen", { ...mine, LISTEN_FDS: "1" }), { fd: 3 });
  t.same(inheritedSocket("admin", { ...mine, LISTEN_FDS: "1" }), undefined);
  t.same(inheritedSocket("listen", { ...mine, LISTEN_FDS: "2", LISTEN_FDNAMES: "admin:public" }), { fd: 4 });
  t.same(inheritedSocket("admin", { ...mine, LISTEN_FDS: "2", LISTEN_FDNAMES: "public:admin" }), { fd: 4 });
  t.same(inheritedSocket("listen", { LISTEN_PID: "1", LISTEN_FDS: "1" }), undefined, "another process's");
  t.same(inheritedSocket("listen", {}), undefined);
  t.ok(new Listener({ fd: 3 }, () => {}).isInherited);
});
