/**
 * Bytes of a request's JSON text per token, where there is no exact count. English prose has about 4, code and JSON about 3;
 * other scripts have 3 bytes in UTF-8 per letter and about one token per letter; JSON's names and brackets come on top. Where
 * the estimate is too high, a client shortens its prompt early; where it is too low, the request exceeds the vendor's limit.
 */
const BYTES_PER_TOKEN = 3;

export const estimateTextTokens = (text: string, budget?: CountBudget): number =>
  tokensOfText(Buffer.byteLength(text), countPieces(text, budget));

/** Estimates the tokens of a text of so many bytes and pieces. */
export const tokensOfText = (bytes: number, pieces: number): number =>
  Math.ceil(Math.max(0, bytes / BYTES_PER_TOKEN, pieces * TOKENS_PER_PIECE));

/** Tokens per piece, where tokenizers find a little more than one: measured with numbers, base64, hex, tables and logs. */
const TOKENS_PER_PIECE = 1.1;

const [SPACE, LOWER, UPPER, DIGIT, MARK] = [0, 1, 2, 3, 4];

/** Characters or bytes of texts that are counted as a whole; maximum samples of a longer one, and the length of each. */
const [MAX_COUNTED, MAX_SAMPLES, SAMPLE_LENGTH] = [262_144, 128, 1024];
/** The part of a text, and its minimum length, that is counted although other texts have used up the budget. */
const [SAMPLED_PART, MIN_SAMPLE] = [1 / 32, 64];

/** What may still be counted as a whole of the texts that are counted together. */
export interface CountBudget {
  /** Characters or bytes. */
  left: number;
}

export const countBudget = (): CountBudget => ({ left: MAX_COUNTED });

/** Counts the pieces of a text; those of a long one by samples. */
export const countPieces = (text: string, budget?: CountBudget): number =>
  countSampled(text.length, (from, to) => text.slice(from, to), budget);

/**
 * Counts the pieces of a text of so many characters or bytes; those beyond the budget by samples, because counting all of it
 * would block the event loop. Where they are is random, so that nobody can write a text that has few pieces only there.
 */
export function countSampled(
  length: number,
  read: (from: number, to: number) => string,
  budget: CountBudget = countBudget(),
): number {
  const counted = Math.min(length, Math.max(budget.left, MIN_SAMPLE, Math.ceil(length * SAMPLED_PART)));
  const size = Math.min(counted, SAMPLE_LENGTH);
  const samples = Math.min(Math.floor(counted / size), MAX_SAMPLES);
  budget.left = Math.max(0, budget.left - (counted === length ? length : samples * size));
  if (counted === length) return countAll(read(0, length));
  const step = length / samples;
  let found = 0;
  for (let n = 0; n < samples; n++) {
    const from = Math.floor(n * step + Math.random() * (step - size));
    found += countAll(read(from, from + size));
  }
  return found * (step / size);
}

/**
 * Counts all pieces of a text: a new one begins where the kind of character changes, at every third digit and every second
 * mark. Numbers and random letters have many per byte, prose few. Letters of other scripts count by their bytes.
 */
function countAll(text: string): number {
  let found = 0;
  let kind = SPACE;
  let length = 0;
  /** Whether the last character was a capital that begins a word. */
  let capital = false;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) {
      found += (code < 0x800 ? 2 : 3) / BYTES_PER_TOKEN / TOKENS_PER_PIECE;
      if (kind === SPACE) kind = LOWER;
      continue;
    }
    const next = kindOf(code);
    const same = next === kind || (capital && next === LOWER);
    capital = next === UPPER && (kind === SPACE || kind === MARK);
    kind = next;
    length = same ? length + 1 : 1;
    const full = (kind === DIGIT && length > 3) || (kind === MARK && length > 2);
    if (kind === SPACE || (same && !full)) continue;
    found++;
    length = 1;
  }
  return found;
}

function kindOf(code: number): number {
  if (code <= 0x20) return SPACE;
  if (code >= 0x61 && code <= 0x7a) return LOWER;
  if (code >= 0x41 && code <= 0x5a) return UPPER;
  return code >= 0x30 && code <= 0x39 ? DIGIT : MARK;
}
