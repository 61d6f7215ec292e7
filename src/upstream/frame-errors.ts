import type { Protocol } from "../core/protocol.ts";
import type { Redactor } from "../core/redactor.ts";
import { Frame } from "../wire/frame.ts";
import { QUOTE } from "../wire/grammar.ts";

const ERROR_VALUE = /:\s*"error"/;
/** Data of nearly all frames that are no error. */
const OBJECT = /^\s*\{/;

/** A line that is a comment, as Latin-1; the first one of a stream may follow a byte order mark. */
const COMMENT = /^(?:\xef\xbb\xbf)?:[^\r\n]*/gm;

/** Redacts error frames, and comments; all else passes byte for byte. */
export function redactFrame(frame: Frame, protocol: Protocol, redactor: Redactor): Frame {
  if (protocol.ending(frame) === "error" || hasForeignError(frame)) {
    const bytes = redactor.bytes(frame.bytes);
    return bytes === frame.bytes ? frame : new Frame(frame.kind, bytes);
  }
  if (!frame.hasComment) return frame;
  const text = frame.bytes.toString("latin1");
  const clean = text.replace(COMMENT, (comment) => redactor.text(comment));
  return clean === text ? frame : new Frame(frame.kind, Buffer.from(clean, "latin1"));
}

/** Reports whether a frame's data begins like JSON and is not. Other texts pass, as clients may ignore them. */
export const isUnreadable = (frame: Frame, protocol: Protocol): boolean =>
  OBJECT.test(frame.text ?? "") && frame.json() === undefined && protocol.ending(frame) === undefined;

/**
 * Reports whether a frame has an error as another protocol writes it: in a member, or in that of its `response`; in an event of
 * that name; by its type; or as text, or bare, without a field of SSE. Only frames with such a member are parsed.
 */
function hasForeignError(frame: Frame): boolean {
  if (!frame.mayHoldError) return false;
  const { event, text } = frame;
  if ((event !== undefined && /error/i.test(event)) || text === undefined || !OBJECT.test(text)) return true;
  // The value may stand on another line of the data than its name.
  const mayBeSplit = text.includes("\n") && frame.containsWord('"error"');
  const mayHaveMember = mayBeSplit || frame.mayContain("error") || frame.mayContain("error", QUOTE);
  if (!mayHaveMember && !ERROR_VALUE.test(text)) return false;
  const json = frame.json() as ForeignError | null | undefined;
  return (json?.error ?? json?.response?.error ?? null) !== null || json?.type === "error" || json?.object === "error";
}

/** The members by which protocols mark an error. */
interface ForeignError {
  readonly error?: unknown;
  readonly response?: { readonly error?: unknown } | null;
  readonly type?: unknown;
  readonly object?: unknown;
}
