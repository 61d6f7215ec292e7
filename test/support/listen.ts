import { once } from "node:events";
import { Server as HttpServer } from "node:http";
import type { AddressInfo, Server } from "node:net";

/** The part of a test with which helpers remove what they have made. */
export interface Teardown {
  teardown(act: () => unknown): unknown;
}

/** Makes a server listen on a free port of this machine, stopped with the test. Returns the port. */
export async function listen(t: Teardown, server: Server): Promise<number> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.teardown(() => {
    server.close();
    if (server instanceof HttpServer) server.closeAllConnections();
  });
  return (server.address() as AddressInfo).port;
}
