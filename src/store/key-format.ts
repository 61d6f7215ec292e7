import { randomFillSync } from "node:crypto";
import { crc32 } from "node:zlib";

/**
 * A key is `gw_<id>_<secret>_<checksum>`: 10 public characters that may be shown and logged, 43 that hold 256 random bits, and
 * the CRC-32 of everything before it. Only letters, digits and `_`, so that a double click selects the whole key. With the
 * checksum, typing errors and made-up keys are refused without a store query; it proves nothing.
 */
const SHAPE = /^gw_[0-9a-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/;
const ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const CHECKSUM_LENGTH = 6;
/** Length of every key. */
const KEY_LENGTH = 64;

/** Returns random characters from the first `size` of the alphabet, uniformly distributed. */
function random(length: number, size: number): string {
  const bytes = Buffer.alloc(length * 2);
  const fair = 256 - (256 % size);
  let text = "";
  while (text.length < length) {
    for (const byte of randomFillSync(bytes)) {
      if (byte < fair && text.length < length) text += ALPHABET[byte % size];
    }
  }
  return text;
}

function checksum(text: string): string {
  let rest = crc32(text);
  let digits = "";
  for (let position = 0; position < CHECKSUM_LENGTH; position++) {
    digits = ALPHABET[rest % ALPHABET.length] + digits;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return digits;
}

/**
 * Creates a key and its public id, which is part of it.
 * @param id that of the key it replaces
 */
export function generateKey(id: string = random(10, 36)): { key: string; id: string } {
  const body = `gw_${id}_${random(43, 62)}_`;
  return { key: body + checksum(body), id };
}

/** Reports whether text has the shape of a key, valid or not: it must not be logged, and scanners should find it. */
export function looksLikeKey(text: string): boolean {
  return text.length === KEY_LENGTH && SHAPE.test(text);
}

/** Returns the public id in text that looks like a key; undefined for other text. */
export const parseKeyId = (text: string): string | undefined => (looksLikeKey(text) ? text.slice(3, 13) : undefined);

/** Reports whether this gateway may have issued a key: shape and checksum are right. Does not query the store. */
export function isValidKey(text: string): boolean {
  return looksLikeKey(text) && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH);
}
