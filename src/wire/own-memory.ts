/**
 * Returns bytes that are kept for long in memory of their own, where they would keep alive much more: short buffers share one of
 * 8 KiB, and the parts of a read share that.
 */
export function inOwnMemory(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength <= 2 * bytes.length) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  own.set(bytes);
  return own;
}

/**
 * Makes short buffers share memory of 8 KiB, for this process: any of them keeps all of it alive, and with Node's 64 KiB clients that
 * stop reading take much more.
 */
export function shareLessMemory(): void {
  Buffer.poolSize = 8 * 1024;
}
