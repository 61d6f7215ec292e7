import { hash } from "node:crypto";

const LONGEST = 3072;
const USUAL = 768;

/** A vector of length 1 for a text: each word adds to one place of it, so texts that share words are alike. */
export function embedding(text: string, dimensions = USUAL): number[] {
  const size = Math.min(Math.max(1, dimensions), LONGEST);
  const values = new Array<number>(size).fill(0);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [""]) {
    const place = Number.parseInt(hash("sha256", word, "hex").slice(0, 8), 16) % size;
    values[place] = (values[place] as number) + 1;
  }
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}
