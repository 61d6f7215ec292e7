import { once } from "node:events";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { createServer, setDefaultCACertificates, type TLSSocket } from "node:tls";
import t, { type Test } from "tap";
import { Connector, type ConnectorOptions } from "../../../src/upstream/http1/connector.ts";
import { certificate, key } from "../../support/tls.ts";
import { delayedLookup } from "../../support/upstream.ts";

function opening(t: Test, connector: Connector): Promise<{ error?: Error | undefined; socket?: Socket | undefined }> {
  return new Promise((resolve) =>
    connector.open((error, socket) => {
      if (socket) t.teardown(() => socket.destroy());
      resolve({ error, socket });
    }),
  );
}

function connector(origin: string, some: Partial<ConnectorOptions> = {}, read: string[] = []): Connector {
  return new Connector(origin, { receive: (_socket, bytes) => read.push(bytes.toString("latin1")), ...some });
}

t.test("what is read reaches the registered handler, and no other", async (t) => {
  const server = createTcpServer((socket) => socket.write("hello"));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const read: string[] = [];
  const { port } = server.address() as AddressInfo;
  const { socket } = await opening(t, connector(`http://127.0.0.1:${port}`, {}, read));
  while (read.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  t.same(read, ["hello"]);
  socket?.destroy();
});

t.test("a connection that cannot be established is reported once", async (t) => {
  t.match(await opening(t, connector("http://127.0.0.1:1")), { error: { code: "ECONNREFUSED" }, socket: undefined });
});

t.test("an aborted attempt is reported no more", async (t) => {
  const { lookup, go } = delayedLookup();
  const told: unknown[] = [];
  connector("http://provider.test:1", { lookup }).open((error) => told.push(error))();
  go();
  await new Promise((resolve) => setTimeout(resolve, 60));
  t.same(told, []);
});

t.test("over TLS: the server name is sent, no other protocol offered, and the last session resumed", async (t) => {
  setDefaultCACertificates([certificate]);
  const names: unknown[] = [];
  const server = createServer({ cert: certificate, key, ALPNProtocols: ["h2", "http/1.1"] }, (socket) => {
    names.push([(socket as { servername?: unknown }).servername, socket.alpnProtocol, socket.isSessionReused()]);
    socket.on("error", () => {}).write("x");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => void server.close());
  const { lookup, go } = delayedLookup();
  go();
  const read: string[] = [];
  const one = connector(`https://provider.test:${(server.address() as AddressInfo).port}`, { lookup }, read);
  for (let i = 1; i <= 2; i++) {
    const { socket } = await opening(t, one);
    t.ok((socket as TLSSocket).authorized);
    while (read.length < i) await new Promise((resolve) => setTimeout(resolve, 2));
  }
  t.same(names, [
    ["provider.test", "http/1.1", false],
    ["provider.test", "http/1.1", true],
  ]);
});
