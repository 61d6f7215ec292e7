import { randomFillSync } from "node:crypto";

const POOL = Buffer.allocUnsafe(4096);
let used = POOL.length;

/** A UUIDv7 (RFC 9562): Unix milliseconds, then 74 random bits; sorts by time. */
export function newId(time: number): string {
  if (used + 10 > POOL.length) {
    randomFillSync(POOL);
    used = 0;
  }
  const random = POOL.toString("hex", used, used + 10);
  used += 10;
  const stamp = time.toString(16).padStart(12, "0");
  const variant = ((Number.parseInt(random[3] as string, 16) & 3) | 8).toString(16);
  return `${stamp.slice(0, 8)}-${stamp.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`;
}
