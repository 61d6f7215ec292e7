import type { Frame } from "../wire/frame.ts";
import { changesAt, type JsonPath } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import type { Protocol, TextKind, TextPlace } from "./protocol.ts";
import { escaped, JsonText, type TextOutput, WholeText } from "./text-replacer.ts";

/** A human text, or a piece of one. */
export interface TextSpan {
  readonly kind: TextKind;
  readonly text: string;
  /** In a frame: pieces with the same name are one text, in the order of their frames. Absent: the text is whole here. */
  readonly piece?: string;
}

/** Makes another text of one. */
export type MapText = (text: string, kind: TextKind) => string;

/** The texts of a request, in their order. */
export function textsOf(body: Body, { texts }: Protocol, kinds?: readonly TextKind[]): TextSpan[] {
  if (!texts || !body.scan) return [];
  const json = body.uniqueJson();
  return placesIn(texts.request(json), kinds).flatMap((place) =>
    spansAt(json, asWritten(place, textAt(json, place.path))),
  );
}

/** The texts of a whole answer, or the pieces of texts in a frame. */
export function answerTextsOf(json: unknown, { texts }: Protocol, kinds?: readonly TextKind[]): TextSpan[] {
  return texts ? placesIn(texts.response(json), kinds).flatMap((place) => spansAt(json, place)) : [];
}

/**
 * The texts of an answer that is whole, from its frames: pieces are put together, and what a stream says again in full behind
 * its pieces is left out.
 */
export function wholeTextsOf(frames: readonly Frame[], protocol: Protocol, kinds?: readonly TextKind[]): TextSpan[] {
  const spans = frames.flatMap((frame) => {
    const json = frame.json();
    return json === undefined ? [] : answerTextsOf(json, protocol, kinds);
  });
  const pieced = new Map<string, { kind: TextKind; text: string }>();
  const kindsInPieces = new Set(spans.flatMap(({ kind, piece }) => (piece === undefined ? [] : kind)));
  const whole: { kind: TextKind; text: string }[] = [];
  for (const { kind, text, piece } of spans) {
    const known = piece === undefined ? undefined : pieced.get(piece);
    if (known) known.text += text;
    else if (piece !== undefined || !kindsInPieces.has(kind)) {
      const span = { kind, text };
      whole.push(span);
      if (piece !== undefined) pieced.set(piece, span);
    }
  }
  return whole;
}

/** The edits that put other texts in the place of a request's. */
export function mappedTexts(body: Body, { texts }: Protocol, kinds: readonly TextKind[], map: MapText): Edit[] {
  if (!texts || !body.scan) return [];
  const json = body.uniqueJson();
  const changes: [path: JsonPath, text: string][] = [];
  for (const place of placesIn(texts.request(json), kinds)) {
    const before = textAt(json, place.path);
    const after = replaced(
      before,
      asWritten(place, before),
      (encode) => new WholeText((text) => map(text, place.kind), encode),
    );
    if (after !== before) changes.push([place.path, after]);
  }
  return textEdits(body.bytes(), changes);
}

/** Edits of a JSON text that put other strings at some paths. */
export const textEdits = (json: Buffer, changes: readonly (readonly [path: JsonPath, text: string])[]): Edit[] =>
  changes.length === 0
    ? []
    : changesAt(json, { replace: changes.map(([path, text]) => [path, JSON.stringify(text)] as const) });

export function placesIn(places: Iterable<TextPlace>, kinds: readonly TextKind[] | undefined): TextPlace[] {
  const all = [...places];
  return kinds ? all.filter(({ kind }) => kinds.includes(kind)) : all;
}

export const textAt = (json: unknown, path: JsonPath): string =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown>)[name], json) as string;

/** What replaces the texts at a place. @param make is given how to encode what it puts into the source */
export const outputFor = (place: TextPlace, make: (encode?: (text: string) => string) => TextOutput): TextOutput =>
  place.json ? new JsonText(make(escaped)) : make();

/** A whole text, replaced. */
export function replaced(
  text: string,
  place: TextPlace,
  make: (encode?: (text: string) => string) => TextOutput,
): string {
  const output = outputFor(place, make);
  return output.push(text) + output.end();
}

/** What a client says is JSON text and is none is a plain text, all of which is seen. */
const asWritten = (place: TextPlace, text: string): TextPlace =>
  place.json && !isJson(text) ? { path: place.path, kind: place.kind } : place;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The text at a place; of JSON text that is whole, the strings in it. */
function spansAt(json: unknown, place: TextPlace): TextSpan[] {
  const { kind, piece } = place;
  const text = textAt(json, place.path);
  if (piece !== undefined) return [{ kind, text, piece }];
  const spans: TextSpan[] = [];
  const keep = (each: string): string => {
    if (each !== "") spans.push({ kind, text: each });
    return each;
  };
  replaced(text, place, (encode) => new WholeText(keep, encode));
  return spans;
}
