import { crc32, deflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");

/**
 * Encodes a square PNG (RFC 2083) with 8 bits per channel.
 * @param colourAt returns each pixel's colour, 0 to 255 per channel; fractions are rounded
 */
export function png(
  size: number,
  colourAt: (x: number, y: number) => readonly [red: number, green: number, blue: number],
): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(size, 0);
  header.writeUInt32BE(size, 4);
  // Bit depth 8, colour type 2 (red, green, blue), the only compression and filter methods, not interlaced.
  header.set([8, 2, 0, 0, 0], 8);
  // Each row starts with its filter type 0.
  const row = 1 + 3 * size;
  const pixels = Buffer.alloc(row * size);
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) pixels.set(colourAt(x, y).map(Math.round), y * row + 1 + 3 * x);
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", header),
    chunk("IDAT", deflateSync(pixels)),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

/** Returns a chunk: length, name, content, and the checksum of name and content. */
function chunk(name: string, content: Buffer): Buffer {
  const nameAndContent = Buffer.concat([Buffer.from(name), content]);
  const lengthAndChecksum = Buffer.alloc(8);
  lengthAndChecksum.writeUInt32BE(content.length, 0);
  lengthAndChecksum.writeUInt32BE(crc32(nameAndContent), 4);
  return Buffer.concat([lengthAndChecksum.subarray(0, 4), nameAndContent, lengthAndChecksum.subarray(4)]);
}
