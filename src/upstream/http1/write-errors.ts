import type { Socket } from "node:net";

type WriteCallback = (error?: Error | null) => void;
type SocketWriter = Pick<Socket, "_write" | "_writev">;

/** Connections of which failed writes wait already: they are kept for later requests. */
const deferring = new WeakSet<Socket>();

/**
 * Lets a failed write close a connection only after what has been received is read. A provider that refuses an upload and closes
 * has answered before, and a write that fails first would destroy the socket with the answer unread.
 */
export function deferWriteErrors(socket: Socket): void {
  if (deferring.has(socket)) return;
  deferring.add(socket);
  const { _write: write, _writev: writeAll } = socket;
  const deferred: SocketWriter = {
    _write: (chunk, encoding, done) => write.call(socket, chunk, encoding, deferError(done)),
    ...(writeAll && { _writev: (chunks, done) => writeAll.call(socket, chunks, deferError(done)) }),
  };
  Object.assign(socket, deferred);
}

const deferError =
  (done: WriteCallback): WriteCallback =>
  (error) => {
    if (!error) done(error);
    // The first one may run in this turn, before the socket is read.
    else setImmediate(() => setImmediate(done, error));
  };
