import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import type { Test } from "tap";
import { freePort } from "./free-port.ts";

/** A relay between gateways and their PostgreSQL. */
export interface MutedPostgres {
  /** The address of the database through it. */
  readonly url: string;
  /** From now on no notifications arrive: listening connections are cut, and new ones as soon as they begin to listen. */
  mute(): void;
  /** Number of listening connections, and of those that were cut. */
  readonly listening: () => number;
  readonly cut: () => number;
}

const LISTEN = /listen "/i;

/** Forwards connections to the socket of a server, until it is muted. @param database an address of `PostgresServer` */
export async function mutedPostgres(t: Test, database: string): Promise<MutedPostgres> {
  const { pathname, searchParams } = new URL(database);
  const path = join(searchParams.get("host") as string, ".s.PGSQL.5432");
  const sockets = new Set<Socket>();
  const listening = new Set<Socket>();
  let muted = false;
  let cut = 0;
  const drop = (client: Socket) => {
    cut++;
    client.destroy();
  };
  const server = createServer((client) => {
    const behind = connect(path);
    sockets.add(client);
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      one.on("error", () => {});
      one.on("close", () => {
        other.destroy();
        sockets.delete(one);
        listening.delete(one);
      });
    }
    client.on("data", (bytes: Buffer) => {
      if (LISTEN.test(bytes.toString("latin1"))) {
        if (muted) return drop(client);
        listening.add(client);
      }
      behind.write(bytes);
    });
    behind.on("data", (bytes: Buffer) => client.write(bytes));
  });
  const port = await freePort();
  await new Promise<void>((ready) => server.listen(port, "127.0.0.1", ready));
  t.teardown(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return {
    url: `postgres://${searchParams.get("user")}@127.0.0.1:${port}${pathname}`,
    mute() {
      muted = true;
      for (const client of listening) drop(client);
    },
    listening: () => listening.size,
    cut: () => cut,
  };
}
