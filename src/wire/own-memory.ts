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
