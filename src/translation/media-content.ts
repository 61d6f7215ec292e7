import type { Media } from "./conversation.ts";
import {
  type CountBudget,
  countBudget,
  countPieces,
  countSampled,
  estimateTextTokens,
  tokensOfText,
} from "./text-tokens.ts";

/** Base64 of media, read only as far as needed. */
export interface Base64Content {
  /** Its first characters: at least `HEAD_LENGTH`, or all. */
  readonly head: string;
  /** Its characters. */
  readonly length: number;
  /** Returns the characters from one offset to another; all by default. Escaped characters are one where they have been read. */
  readonly read: (from?: number, to?: number) => string;
}

/** An estimate of tokens, and their upper bound. */
export interface TokenRange {
  readonly likely: number;
  readonly maximum: number;
  /** The part of the upper bound that media have, by their kind. */
  readonly media?: { readonly [kind in Media["media"]]?: number };
}

/** Characters of base64 that tell what the content is. */
export const HEAD_LENGTH = 64;

/** What the bytes of an image begin with, and from which byte: PNG, JPEG, GIF, TIFF, WebP, HEIC and AVIF. */
const IMAGE_SIGNATURES: readonly (readonly [signature: string, at: number])[] = [
  ...["\x89PNG", "\xff\xd8\xff", "GIF87a", "GIF89a", "II*\0", "MM\0*"].map((signature) => [signature, 0] as const),
  ["WEBP", 8],
  ["ftyp", 4],
];
const PDF = "%PDF-";
/** Codes below the space's that texts contain: tab, line ends, escape. */
const TEXT_CONTROLS: readonly number[] = [0x09, 0x0a, 0x0c, 0x0d, 0x1b];
/**
 * Tokens of a page: vendors count its text, at most about 3,000, and an image of it. Fewer bytes than tokens make a page only in
 * files made for that.
 */
const PAGE_TOKENS = 4600;
/** The longest prompt of the models that read documents and recordings. */
const MAX_PROMPT_TOKENS = 1_000_000;

/** Tokens of media: a large image; a page or two, half a minute of audio or a few seconds of video. */
const MEDIA_TOKENS: Readonly<Record<Media["media"], number>> = { image: 1600, audio: 1000, video: 2600, file: 3200 };
/** Bytes of base64 after which media with a length count once more. */
const MEDIA_PIECE_BYTES: Readonly<Record<Media["media"], number>> = {
  image: Number.POSITIVE_INFINITY,
  audio: 640_000,
  video: 1_300_000,
  file: 130_000,
};

/** Bytes of audio and video for a token where bit rates are the lowest: 6 kbit/s of speech, 50 kbit/s of pictures. */
const MIN_BYTES_PER_TOKEN = 20;
/** Tokens of a second of audio, at most; other vendors count a third of it. */
const AUDIO_TOKENS_PER_SECOND = 32;
/** The formats of a WAV file whose samples are not compressed: whole numbers, floating-point numbers. */
const PCM_FORMATS: readonly number[] = [1, 3];

/** Estimates the tokens of media by their length. @param length bytes of base64; 0: unknown */
const tokensOfMedia = (media: Media["media"], length: number): number =>
  MEDIA_TOKENS[media] * Math.max(1, Math.ceil(length / MEDIA_PIECE_BYTES[media]));

/** Wraps base64 that has been decoded from a request. */
export const contentOf = (base64: string): Base64Content => ({
  head: base64.slice(0, HEAD_LENGTH),
  length: base64.length,
  read: (from, to) => base64.slice(from, to),
});

const beginningOf = ({ head }: Base64Content): Buffer => Buffer.from(head, "base64");

function isImage(content: Base64Content): boolean {
  const start = beginningOf(content).toString("latin1");
  return IMAGE_SIGNATURES.some(([signature, at]) => start.startsWith(signature, at));
}

/** Reports whether content is a text, by its first bytes. */
function isText(content: Base64Content): boolean {
  const start = beginningOf(content);
  return start.indexOf(PDF) !== 0 && start.every((code) => code >= 0x20 || TEXT_CONTROLS.includes(code));
}

/**
 * Returns the tokens of media. The declared type is the client's word: text under any type counts as text, and so does an image
 * that begins like none, because a vendor may read it by its content.
 */
export function tokensOfContent(
  media: Media["media"],
  content: Base64Content,
  budget: CountBudget = countBudget(),
): TokenRange {
  const likely = tokensOfMedia(media, content.length);
  if (content.length === 0 || (media === "image" && isImage(content))) return { likely, maximum: likely };
  if (media === "image" || isText(content)) {
    const asText = tokensOfDecoded(content, budget);
    return media === "file" ? { likely: asText, maximum: asText } : { likely, maximum: Math.max(likely, asText) };
  }
  const maximum = media === "file" ? Math.max(PAGE_TOKENS, decodedLength(content)) : maximumOfRecording(content);
  return { likely, maximum: Math.max(likely, Math.min(MAX_PROMPT_TOKENS, maximum)) };
}

/** Returns the likely tokens of media alone: only text files are read for them. */
export const likelyTokensOf = (media: Media["media"], content: Base64Content, budget: CountBudget): number =>
  media === "file" && content.length > 0 && isText(content)
    ? tokensOfDecoded(content, budget)
    : tokensOfMedia(media, content.length);

/** Estimates the tokens of content as a text in UTF-8. Of much only samples are decoded: what is no UTF-8 takes long. */
function tokensOfDecoded(content: Base64Content, budget: CountBudget): number {
  const decode = (from?: number, to?: number) => Buffer.from(content.read(from, to), "base64");
  const length = decodedLength(content);
  if (length <= budget.left) {
    const bytes = decode();
    return tokensOfText(bytes.length, countPieces(bytes.toString(), budget));
  }
  // Three bytes are four characters.
  const text = (from: number, to: number) => decode(Math.floor(from / 3) * 4, Math.ceil(to / 3) * 4).toString();
  return tokensOfText(length, countSampled(length, text, budget));
}

/** Returns the tokens of content that the model reads as the base64 that it is. */
export function tokensOfUndecoded(content: Base64Content, budget: CountBudget): number {
  const { length, read } = content;
  if (length > budget.left) return tokensOfText(length, countSampled(length, read, budget));
  return estimateTextTokens(read(), budget);
}

/** Returns the maximum tokens of audio or video: by the duration of uncompressed audio, else at the lowest bit rate. */
function maximumOfRecording(content: Base64Content): number {
  const bytes = decodedLength(content);
  const perSecond = bytesPerSecondOfWav(beginningOf(content));
  return Math.ceil(
    perSecond === undefined ? bytes / MIN_BYTES_PER_TOKEN : (bytes / perSecond) * AUDIO_TOKENS_PER_SECOND,
  );
}

/** Returns the bytes of a second of uncompressed audio, by the beginning of a WAV file; undefined for all else. */
function bytesPerSecondOfWav(start: Buffer): number | undefined {
  const isWav =
    start.length >= 36 && start.toString("latin1", 0, 4) === "RIFF" && start.toString("latin1", 8, 16) === "WAVEfmt ";
  if (!isWav || !PCM_FORMATS.includes(start.readUInt16LE(20))) return undefined;
  const [channels, rate, bits] = [start.readUInt16LE(22), start.readUInt32LE(24), start.readUInt16LE(34)];
  return (channels * rate * bits) / 8 || undefined;
}

/** Estimates the tokens of long media by their beginning and their length, without reading them. */
export const tokensOfLong = (media: Media["media"], content: Base64Content): number =>
  media === "file" && isText(content) ? tokensOfText(decodedLength(content), 0) : tokensOfMedia(media, content.length);

const decodedLength = ({ length }: Base64Content): number => Math.ceil((length * 3) / 4);
