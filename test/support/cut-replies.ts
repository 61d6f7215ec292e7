import { connect, createServer, type Socket } from "node:net";
import type { Test } from "tap";
import { listen } from "./listen.ts";

/** A proxy before a server that loses replies. */
export interface ReplyCutter {
  readonly port: number;
  /**
   * Forwards the next bytes of a client that contain a text, and closes the connection instead of forwarding their reply.
   * @returns a promise that resolves once the server has replied
   */
  cutReplyTo(text: string): Promise<void>;
}

/** Starts a proxy before a port of this machine, stopped with the test. */
export async function startReplyCutter(t: Test, to: number): Promise<ReplyCutter> {
  let armed: { readonly text: string; readonly done: () => void } | undefined;
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(to, "127.0.0.1");
    const close = () => {
      for (const socket of [client, upstream]) socket.destroy();
    };
    let cut: (() => void) | undefined;
    client.on("data", (bytes) => {
      if (armed && bytes.includes(armed.text)) {
        cut = armed.done;
        armed = undefined;
      }
      upstream.write(bytes);
    });
    upstream.on("data", (bytes) => {
      if (!cut) return void client.write(bytes);
      close();
      cut();
    });
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", close).on("close", close);
    }
  });
  const port = await listen(t, server);
  t.teardown(() => {
    for (const socket of open) socket.destroy();
  });
  return {
    port,
    cutReplyTo: (text) =>
      new Promise((done) => {
        armed = { text, done };
      }),
  };
}
