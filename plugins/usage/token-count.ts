import type { Protocol } from "model-gateway";

/**
 * Pieces into which tokenizers split texts before the lookup: contractions, words with a preceding character, up to three
 * digits, punctuation with line ends, white space. As published for `cl100k_base`.
 */
const PIECES =
  /'(?:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?=\S)|\s+/giu;
/** Characters of a word that usually is one token, and characters per further token. */
const MAX_SINGLE_TOKEN = 11;
const CHARACTERS_PER_TOKEN = 5;
/** Bytes per token in other scripts. */
const BYTES_PER_TOKEN = 3.2;

const SPACE = /^\s+$/;
/** Number of ASCII characters. */
const ASCII_CHARACTERS = 0x80;

/** Characters of a text from which only samples are counted, evenly distributed: all of it would block other requests. */
const LONG_TEXT = 256 * 1024;
const SAMPLES = 64;
const SAMPLE_LENGTH = 1024;

/** Estimates the tokens of a piece of a response, at least one: vendors never send half a token. */
export function estimateTokens(text: string): number {
  if (text.length < LONG_TEXT) return countTokens(text);
  const step = Math.floor(text.length / SAMPLES);
  let tokens = 0;
  for (let i = 0; i < SAMPLES; i++) tokens += countTokens(text.slice(i * step, i * step + SAMPLE_LENGTH));
  return (tokens / (SAMPLES * SAMPLE_LENGTH)) * text.length;
}

function countTokens(text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(PIECES)) {
    if (!isAscii(piece)) tokens += Math.max(1, Buffer.byteLength(piece) / BYTES_PER_TOKEN);
    else if (piece.length <= MAX_SINGLE_TOKEN || SPACE.test(piece)) tokens++;
    else tokens += 1 + Math.ceil((piece.length - MAX_SINGLE_TOKEN) / CHARACTERS_PER_TOKEN);
  }
  return text === "" ? 0 : Math.max(1, tokens);
}

function isAscii(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) >= ASCII_CHARACTERS) return false;
  return true;
}

/** Models whose tokens do not depend on the protocol that they answer in. */
const MODELS: readonly (NonNullable<Protocol["tokenEstimate"]> & { readonly model: RegExp })[] = [
  {
    model: /\bclaude\b/i,
    textFactor: 1.27,
    perToolCall: 34,
    perAnswer: 4,
    input: { perTurn: 7, tools: 504, schemaFactor: 1.17 },
  },
  {
    // Its prompts begin with instructions of its own, and its answers name their channels (reasoning, final, a call).
    model: /\bgpt-oss\b/i,
    textFactor: 1.01,
    perToolCall: 9,
    perAnswer: 7,
    input: { once: 59, perTurn: 7, tools: 29, schemaFactor: 0.5 },
  },
  {
    // Their answers name their channels, too.
    model: /\b(?:gpt-5|o[134]\b)/i,
    textFactor: 0.98,
    perToolCall: 11,
    perAnswer: 4,
    input: { perTurn: 8, tools: 25, schemaFactor: 0.6 },
  },
  // Without thinking, a call is little more than its name.
  { model: /\bgemini-(?:1|2\.0)/i, textFactor: 1.11, perToolCall: 5 },
  // A tool is described to these at length.
  {
    model: /\bgrok-(?:3|4(?:[.-]1)?-fast|code)/i,
    textFactor: 1.01,
    perToolCall: 23,
    input: { perTurn: 12, tools: 140, schemaFactor: 1.7 },
  },
  { model: /\bgrok\b/i, textFactor: 1.03, perToolCall: 7, input: { perTurn: 12, tools: 140, schemaFactor: 1.7 } },
  { model: /\bdeepseek\b/i, textFactor: 1, perToolCall: 27, input: { perTurn: 7, tools: 220, schemaFactor: 1.2 } },
];
/** Where a protocol says nothing. */
const USUAL_TOKENS: NonNullable<Protocol["tokenEstimate"]> = { textFactor: 1, perToolCall: 0 };

/** Returns how a model's counts differ from `estimateTokens`. @param model the vendor's name */
export const tokenWeights = (protocol: Protocol, model: string): NonNullable<Protocol["tokenEstimate"]> => {
  const usual = protocol.tokenEstimate ?? USUAL_TOKENS;
  return { ...usual, ...MODELS.find((each) => each.model.test(model)) };
};
