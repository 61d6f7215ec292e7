import { randomFillSync } from "node:crypto";

/** Number of ids whose ends are made together, and the characters of one: `3a9-8c01-52f0d6b7e194`. */
const BATCH = 200;
const END = 21;
/** The places of its digits, the last of which is written twice. */
const PLACES = Uint8Array.of(0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 20);
const BYTES = PLACES.length / 2;
/** The place of the digit whose first two bits are 10, and the byte that it is made of. */
const [VARIANT, VARIANT_BYTE] = [4, 1];

const DIGITS = Buffer.from("0123456789abcdef");
const random = Buffer.allocUnsafe(BATCH * BYTES);
const characters = Buffer.alloc(BATCH * END, "-");

/** The ends of the next ids, and how many characters of them are used. */
let ends = "";
let used = 0;
/** The beginnings of ids, cached with their times: under load many ids are made in a millisecond. */
let [start, startTime] = ["", -1];
let [prefix, prefixNumber] = ["", -1];

/** Returns a UUIDv7 (RFC 9562): Unix milliseconds, then 74 random bits; sorts by time. */
export function newId(time: number): string {
  if (used === ends.length) makeEnds();
  if (time !== startTime) {
    // Of 65,536 ms: V8 formats small integers much faster than large ones.
    const number = Math.floor(time / 2 ** 16);
    if (number !== prefixNumber) [prefix, prefixNumber] = [number.toString(16).padStart(8, "0"), number];
    start = `${prefix}-${(2 ** 16 + (time % 2 ** 16)).toString(16).slice(1)}-7`;
    startTime = time;
  }
  const at = used;
  used += END;
  return start + ends.slice(at, used);
}

function makeEnds(): void {
  randomFillSync(random);
  for (let id = 0; id < BATCH; id++) {
    const at = id * END;
    for (let i = 0; i < BYTES; i++) {
      const byte = random[id * BYTES + i] as number;
      characters[at + (PLACES[2 * i] as number)] = DIGITS[byte >> 4] as number;
      characters[at + (PLACES[2 * i + 1] as number)] = DIGITS[byte & 15] as number;
    }
    characters[at + VARIANT] = DIGITS[8 + ((random[id * BYTES + VARIANT_BYTE] as number) & 3)] as number;
  }
  ends = characters.toString("latin1");
  used = 0;
}
