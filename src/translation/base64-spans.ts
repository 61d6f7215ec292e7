import { BACKSLASH, QUOTE } from "../wire/grammar.ts";
import type { ByteSpan } from "../wire/splice.ts";
import type { Media } from "./conversation.ts";
import { endsStep, runAtOnce, type Steps } from "./steps.ts";

/** Base64 in a JSON text: of media, or of state that only its provider can read; and where it is. */
interface Base64Span extends ByteSpan {
  readonly kind: Media["media"] | "opaque";
}

/** Bytes between two samples, and bytes per sample: base64 longer than both together is always found. */
const [STEP, SAMPLE] = [1024, 48];
/** Bytes of a sample within base64: other text would have another character in one of the samples. */
const INNER_SAMPLE = 16;
/** Character codes of base64, and of the backslash that may escape a slash or a line end. */
const BASE64 = Uint8Array.from({ length: 256 }, (_, code) =>
  code === BACKSLASH || /[\w+/=-]/.test(String.fromCharCode(code)) ? 1 : 0,
);
/** Bytes before and after base64 in which its member's name and its media type are; also those of a data URL before it. */
const NEAR = 200;
/** Bytes before a sample that are searched for the beginning of its string. */
const LEAD = STEP + 2 * NEAR;
/** Members that hold media in the protocols, and those that hold state. */
const HOLDER = /"(?:data|file_?data|(?:image_?)?url)"\s*:\s*$/i;
const STATE_HOLDER =
  /"(?:(?:thought_?)?signature|encrypted_content)"\s*:\s*$|(?:redacted|encrypted)[^{}]*"data"\s*:\s*$/i;
const MEDIA_TYPE = /\b(image|audio|video)(?:\\?\/|")|"input_(audio)"|\b(?:application|text)\\?\/|"file_?data"/i;

/**
 * Finds media and opaque state in a long JSON text by samples, without parsing it. Not those that are shorter than about a
 * kilobyte; base64 in other members is text.
 */
export const base64Spans = (pieces: readonly Buffer[]): Base64Span[] => runAtOnce(base64SpansInSteps(pieces));

/** Does the same in steps. */
export function* base64SpansInSteps(pieces: readonly Buffer[]): Steps<Base64Span[]> {
  const found: Base64Span[] = [];
  let base = 0;
  /** The bytes before the current piece that may belong to base64 in it. */
  let before: Buffer = Buffer.alloc(0);
  for (const [index, piece] of pieces.entries()) {
    for (let at = Math.max(0, (found.at(-1)?.end ?? 0) - base); at + SAMPLE <= piece.length; at += STEP) {
      if (!isBase64(piece, at, SAMPLE)) continue;
      const span = spanAround(pieces, { index, base, at, before });
      if (!span) continue;
      found.push(span);
      at = span.end - base;
      if (endsStep(found.length)) yield;
    }
    base += piece.length;
    before = piece.length < LEAD ? Buffer.concat([before, piece]).subarray(-LEAD) : piece.subarray(-LEAD);
  }
  return found;
}

/** Reports whether a text has long base64 without escapes anywhere, also where it is neither media nor state. */
export const hasLongBase64 = (pieces: readonly Buffer[]): boolean =>
  pieces.some((piece) => {
    for (let at = 0; at + SAMPLE <= piece.length; at += STEP)
      if (isBase64(piece, at, SAMPLE) && !piece.subarray(at, at + SAMPLE).includes(BACKSLASH)) return true;
    return false;
  });

/** A sample that is base64: its piece, the offset of that in the text, the sample's offset in it, the bytes before it. */
interface Base64Sample {
  readonly index: number;
  readonly base: number;
  readonly at: number;
  readonly before: Buffer;
}

function spanAround(pieces: readonly Buffer[], { index, base, at, before }: Base64Sample): Base64Span | undefined {
  const piece = pieces[index] as Buffer;
  const own = piece.subarray(Math.max(0, at - LEAD), at);
  const lead = at < LEAD ? Buffer.concat([before, own]) : own;
  const quote = lead.lastIndexOf(QUOTE);
  // A string that begins further away has been judged by an earlier sample.
  if (quote < 0 || lead.length - quote > STEP + NEAR) return undefined;
  const name = lead.toString("latin1", Math.max(0, quote - NEAR), quote);
  const isState = STATE_HOLDER.test(name);
  if (!isState && !HOLDER.test(name)) return undefined;
  const rest = readToQuote(pieces, index, base, at);
  if (!rest) return undefined;
  const sample = lead.length - quote < NEAR ? piece.toString("latin1", at, at + SAMPLE) : "";
  const begin = lead.toString("latin1", quote, quote + NEAR) + sample;
  const type = MEDIA_TYPE.exec(begin) ?? MEDIA_TYPE.exec(name) ?? MEDIA_TYPE.exec(rest.after);
  if (!isState && !type) return undefined;
  const kind = isState ? "opaque" : ((type?.[1] ?? type?.[2] ?? "file").toLowerCase() as Media["media"]);
  return { kind, start: base + at - (lead.length - quote) + 1, end: rest.end };
}

/** Returns where the string ends that is base64 at an offset, and what follows; undefined: it is not only base64. */
function readToQuote(
  pieces: readonly Buffer[],
  first: number,
  base: number,
  from: number,
): { end: number; after: string } | undefined {
  for (let index = first, start = from, offset = base; index < pieces.length; index++, start = 0) {
    const piece = pieces[index] as Buffer;
    const quote = piece.indexOf(QUOTE, start);
    const end = quote < 0 ? piece.length : quote;
    for (let at = start; at + INNER_SAMPLE < end; at += STEP) if (!isBase64(piece, at, INNER_SAMPLE)) return undefined;
    if (quote >= 0) {
      const next = pieces[index + 1]?.toString("latin1", 0, NEAR) ?? "";
      return { end: offset + quote, after: (piece.toString("latin1", quote, quote + NEAR) + next).slice(0, NEAR) };
    }
    offset += piece.length;
  }
  return undefined;
}

function isBase64(bytes: Buffer, from: number, length: number): boolean {
  for (let i = from; i < from + length; i++) if (BASE64[bytes[i] as number] === 0) return false;
  return true;
}
