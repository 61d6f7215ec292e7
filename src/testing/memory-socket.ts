import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * One end of a connection inside the process. Writes arrive at the other end in the same pieces, one at a time, with
 * backpressure; destroying one end breaks the connection.
 */
class MemorySocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  private peer: MemorySocket | undefined;
  /** Called when the last piece has been read. */
  private onRead: ((error?: Error) => void) | undefined;

  connectTo(other: MemorySocket): void {
    this.peer = other;
  }

  override _read(): void {
    const { onRead } = this;
    this.onRead = undefined;
    if (onRead) setImmediate(onRead);
  }

  override _write(piece: Buffer, _encoding: string, done: (error?: Error) => void): void {
    const { peer } = this;
    if (!peer || peer.destroyed) done(connectionReset());
    else if (piece.length === 0) setImmediate(done);
    else {
      peer.onRead = done;
      peer.push(piece);
    }
  }

  override _final(done: () => void): void {
    this.peer?.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { peer, onRead } = this;
    this.peer = undefined;
    this.onRead = undefined;
    onRead?.(connectionReset());
    if (peer) setImmediate(() => peer.peerDestroyed(this.writableFinished));
    done(error);
  }

  // Methods of network sockets without an effect here: these connections have no timeouts and do not keep the process running.
  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  destroySoon(): void {
    if (this.writableFinished) this.destroy();
    else this.end(() => this.destroy());
  }

  /** @param ended whether the other end had finished writing */
  private peerDestroyed(ended: boolean): void {
    this.peer = undefined;
    if (this.destroyed) return;
    // Its last piece has still to be read.
    if (ended) this.onRead?.();
    else this.destroy(connectionReset());
  }
}

const connectionReset = (): Error => Object.assign(new Error("The connection was reset."), { code: "ECONNRESET" });

/**
 * Returns both ends of a connection inside the process, with the parts of a socket that node's HTTP and the gateway's client use.
 */
export function socketPair(): [Socket, Socket] {
  const options = { decodeStrings: true, allowHalfOpen: true };
  const [one, two] = [new MemorySocket(options), new MemorySocket(options)];
  one.connectTo(two);
  two.connectTo(one);
  return [one as unknown as Socket, two as unknown as Socket];
}
