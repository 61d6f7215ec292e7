import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * One end of a connection within the process. What is written to it is read at the other end in the same pieces, and the next
 * piece is taken once that one was read; an end that goes away breaks the connection.
 */
class MemorySocket extends Duplex {
  readonly remoteAddress = "127.0.0.1";
  private other: MemorySocket | undefined;
  /** Told once the piece that came last was read. */
  private taken: ((error?: Error) => void) | undefined;

  join(other: MemorySocket): void {
    this.other = other;
  }

  override _read(): void {
    const { taken } = this;
    this.taken = undefined;
    if (taken) setImmediate(taken);
  }

  override _write(piece: Buffer, _encoding: string, done: (error?: Error) => void): void {
    const { other } = this;
    if (!other || other.destroyed) done(reset());
    else if (piece.length === 0) setImmediate(done);
    else {
      other.taken = done;
      other.push(piece);
    }
  }

  override _final(done: () => void): void {
    this.other?.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const { other, taken } = this;
    this.other = undefined;
    this.taken = undefined;
    taken?.(reset());
    if (other) setImmediate(() => other.leftAlone(this.writableFinished));
    done(error);
  }

  // What only a socket of the system has. Nothing waits for these connections, so nothing is late on them.
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

  /** @param ended whether the other end had said that nothing more comes */
  private leftAlone(ended: boolean): void {
    this.other = undefined;
    if (this.destroyed) return;
    // What it wrote last is still to be read.
    if (ended) this.taken?.();
    else this.destroy(reset());
  }
}

const reset = (): Error => Object.assign(new Error("The connection was reset."), { code: "ECONNRESET" });

/** Both ends of a connection within the process, as far as node's HTTP and the gateway's own use sockets. */
export function socketPair(): [Socket, Socket] {
  const options = { decodeStrings: true, allowHalfOpen: true };
  const [one, two] = [new MemorySocket(options), new MemorySocket(options)];
  one.join(two);
  two.join(one);
  return [one as unknown as Socket, two as unknown as Socket];
}
