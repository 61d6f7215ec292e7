import { randomUUID } from "node:crypto";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Bytes per read: each call costs as much as copying them. */
const READ_BYTES = 256 * 1024;

/** Bytes buffered in an unlinked file, which disappears with the process, however that ends. */
export class Spool {
  /** Number of bytes in it. */
  length = 0;

  private constructor(private readonly file: FileHandle) {}

  /**
   * Opens a spool in the system's folder for temporary files, `TMPDIR`.
   * @throws Error of the file system
   */
  static async open(): Promise<Spool> {
    const path = join(tmpdir(), `model-gateway-${randomUUID()}`);
    const file = await open(path, "wx+", 0o600);
    try {
      await unlink(path);
    } catch (thrown) {
      await file.close();
      throw thrown;
    }
    return new Spool(file);
  }

  /** @throws Error of the file system */
  async write(pieces: readonly Buffer[]): Promise<void> {
    let rest = pieces.filter(({ length }) => length > 0);
    while (rest.length > 0) {
      const { bytesWritten } = await this.file.writev(rest, this.length);
      this.length += bytesWritten;
      rest = piecesAfter(rest, bytesWritten);
    }
  }

  /**
   * Yields all bytes from the beginning.
   * @throws Error of the file system
   */
  async *read(): AsyncGenerator<Buffer> {
    for (let at = 0; at < this.length; ) {
      const { buffer, bytesRead } = await this.file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, at);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** Closes the file, after pending reads and writes. */
  close(): void {
    this.file.close().catch(() => {});
  }
}

/** Returns the rest of the pieces after a number of bytes: a full disk may have taken only some of them. */
function piecesAfter(pieces: readonly Buffer[], bytes: number): Buffer[] {
  const left: Buffer[] = [];
  let skip = bytes;
  for (const piece of pieces) {
    if (skip < piece.length) left.push(piece.subarray(skip));
    skip = Math.max(0, skip - piece.length);
  }
  return left;
}
