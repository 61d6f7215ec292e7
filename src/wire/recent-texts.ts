import { internalize } from "./internalize.ts";

/** Number of slots for texts, a power of two, and the maximum bytes of one. */
const SLOTS = 256;
const MAX_BYTES = 64;

interface RecentText {
  text: string;
  readonly bytes: Uint8Array;
  /** Whether it has occurred again. */
  isRepeated: boolean;
}

/** A cache of the most recent short texts and their bytes, each in its slot. */
class RecentTexts {
  private readonly recent: RecentText[] = new Array(SLOTS).fill({
    text: "",
    bytes: new Uint8Array(),
    isRepeated: true,
  });

  constructor(private readonly decode: (bytes: Buffer, start: number, end: number) => string) {}

  get(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    if (length === 0 || length > MAX_BYTES) return this.decode(bytes, start, end);
    const edges = 7 * (bytes[start] as number) + 131 * (bytes[end - 1] as number);
    const slot = (311 * length + edges + 31 * (bytes[start + (length >> 1)] as number)) & (SLOTS - 1);
    const recent = this.recent[slot] as RecentText;
    if (areEqual(recent.bytes, bytes, start, length)) {
      if (!recent.isRepeated) repeat(recent);
      return recent.text;
    }
    const text = this.decode(bytes, start, end);
    this.recent[slot] = { text, bytes: new Uint8Array(bytes.subarray(start, end)), isRepeated: false };
    return text;
  }
}

/** Only then: it takes longer than all else for texts that each occur once, such as a hundred thousand names of a body. */
function repeat(recent: RecentText): void {
  recent.text = internalize(recent.text);
  recent.isRepeated = true;
}

const texts = new RecentTexts((bytes, start, end) => bytes.toString("utf8", start, end));

const names = new RecentTexts((bytes, start, end) => {
  const text = bytes.toString("utf8", start, end);
  return text.includes("\\") ? JSON.parse(`"${text}"`) : text;
});

/**
 * Decodes bytes that are often the same few short texts, like the name of a model: comparing them with the last ones in their slot
 * costs a tenth of creating a string, and V8 has the hash of that one.
 */
export const recentText = (bytes: Buffer, start: number, end: number): string => texts.get(bytes, start, end);

/** Returns a name between its quotes, unescaped: the same few occur in every request. */
export const recentName = (bytes: Buffer, start: number, end: number): string => names.get(bytes, start, end);

/** A loop: what compares natively takes longer than a few bytes. */
function areEqual(known: Uint8Array, bytes: Buffer, start: number, length: number): boolean {
  if (known.length !== length) return false;
  for (let i = 0; i < length; i++) if (known[i] !== bytes[start + i]) return false;
  return true;
}
