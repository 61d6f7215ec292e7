/**
 * Pieces that tokenizers cut texts into before they look them up: contractions, words with what stands before them, up to
 * three digits, signs with line ends, white space. As `cl100k_base` is published to do it.
 */
const PIECES =
  /'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?=\S)|\s+/giu;
/** Characters of a word that mostly is one token, and those of each further one. */
const WORD = 11;
const FURTHER = 5;
/** Bytes of other scripts for a token. */
const FOREIGN = 3.2;

const SPACE = /^\s+$/;
/** Characters of ASCII. */
const ASCII = 0x80;

/** About how many tokens a piece of an answer is, at least one: vendors never send half a token. */
export function tokensOf(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(PIECES)) {
    if (!isAscii(piece)) tokens += Math.max(1, Buffer.byteLength(piece) / FOREIGN);
    else if (piece.length <= WORD || SPACE.test(piece)) tokens++;
    else tokens += 1 + Math.ceil((piece.length - WORD) / FURTHER);
  }
  return text === "" ? 0 : Math.max(1, tokens);
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= ASCII) return false;
  return true;
}
