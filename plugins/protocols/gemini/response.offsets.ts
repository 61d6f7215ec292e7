/** Characters between two marks. */
const STEP = 1024;

/**
 * Places in a text, as UTF-16 characters, which is how the vocabulary counts, and as bytes of UTF-8, which is how the
 * vendor does. The text is measured once, with a mark now and then, so that each place costs the same wherever it is.
 */
export class Offsets {
  private readonly encoded: Buffer;
  /** Places that are the same one, in characters and in bytes; never within a surrogate pair. */
  private readonly characters = [0];
  private readonly bytes = [0];

  constructor(private readonly text: string) {
    this.encoded = Buffer.from(text);
    let from = 0;
    let bytes = 0;
    while (from + STEP < text.length) {
      let to = from + STEP;
      if (isLow(text.charCodeAt(to))) to++;
      bytes += Buffer.byteLength(text.slice(from, to));
      this.characters.push(to);
      this.bytes.push(bytes);
      from = to;
    }
  }

  /** Bytes of the text. */
  get length(): number {
    return this.encoded.length;
  }

  /** The bytes before a character. */
  bytesBefore(character: number): number {
    const mark = atOrBefore(this.characters, character);
    const from = this.characters[mark] ?? 0;
    return (this.bytes[mark] ?? 0) + Buffer.byteLength(this.text.slice(from, character));
  }

  /** The characters before a byte. */
  charactersBefore(byte: number): number {
    const mark = atOrBefore(this.bytes, byte);
    const from = this.bytes[mark] ?? 0;
    return (this.characters[mark] ?? 0) + this.encoded.toString("utf8", from, byte).length;
  }
}

/** The second half of a surrogate pair. */
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** Where the last of the ascending numbers stands that is not larger. */
function atOrBefore(numbers: readonly number[], wanted: number): number {
  let low = 0;
  let high = numbers.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((numbers[middle] ?? 0) <= wanted) low = middle;
    else high = middle;
  }
  return low;
}
