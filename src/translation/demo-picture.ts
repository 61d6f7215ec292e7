/** The picture that the demo draws in conversations. */
import { crc32, deflateSync } from "node:zlib";
import type { Event } from "./events.ts";

/** The picture as a block of an answer. */
export const pictureEvents = (block: number): Event[] => [
  { type: "open", block, choice: 0, kind: "media", media: "image", mime: "image/png" },
  { type: "media", block, base64: picture().toString("base64") },
  { type: "close", block },
];

const SIDE = 16;
const PNG = Buffer.from("89504e470d0a1a0a", "hex");

/** A PNG of 16 × 16 points that fades from blue to orange. */
export function picture(): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  // 8 bits for each of red, green and blue.
  header.set([8, 2], 8);
  const rows = Array.from({ length: SIDE }, (_, y) => row(y / (SIDE - 1)));
  const chunks = [
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(Buffer.concat(rows))),
    chunk("IEND", Buffer.alloc(0)),
  ];
  return Buffer.concat([PNG, ...chunks]);
}

/** A row of points, led by its filter type 0. */
function row(share: number): Buffer {
  const point = [30 + 200 * share, 120, 220 - 180 * share].map(Math.round);
  return Buffer.from([0, ...Array.from({ length: SIDE }, () => point).flat()]);
}

function chunk(type: string, body: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type), body]);
  const frame = Buffer.alloc(named.length + 8);
  frame.writeUInt32BE(body.length, 0);
  frame.set(named, 4);
  frame.writeUInt32BE(crc32(named), named.length + 4);
  return frame;
}
