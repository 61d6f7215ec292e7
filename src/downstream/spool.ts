import { randomUUID } from "node:crypto";
import { type FileHandle, open, unlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Bytes that are read at once. */
const PIECE = 65_536;

/** Bytes that wait in a file without a name: it is gone with the process, however that ends. */
export class Spool {
  /** Bytes in it. */
  length = 0;

  private constructor(private readonly file: FileHandle) {}

  /** In the system's folder for such files, `TMPDIR`. @throws Error of the file system */
  static async open(): Promise<Spool> {
    const path = join(tmpdir(), `model-gateway-${randomUUID()}`);
    const file = await open(path, "wx+", 0o600);
    await unlink(path);
    return new Spool(file);
  }

  /** @throws Error of the file system */
  async write(pieces: readonly Buffer[]): Promise<void> {
    for (const piece of pieces) {
      await this.file.appendFile(piece);
      this.length += piece.length;
    }
  }

  /** All of it, from its beginning. @throws Error of the file system */
  async *read(): AsyncGenerator<Buffer> {
    for (let at = 0; at < this.length; ) {
      const { buffer, bytesRead } = await this.file.read(Buffer.allocUnsafe(PIECE), 0, PIECE, at);
      at += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** Frees it, once what is being read or written is done. */
  close(): void {
    this.file.close().catch(() => {});
  }
}
