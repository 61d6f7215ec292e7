import type { Frame } from "../wire/frame.ts";
import { isJsonText } from "../wire/nested.ts";
import { type JsonPath, pathEdits } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import type { Protocol, TextAlternative, TextKind, TextPlace } from "./protocol.ts";
import { checkTextNames } from "./text-names.ts";
import { escapeJson, JsonTextOutput, type TextOutput, WholeTextOutput } from "./text-replacer.ts";

/** A human text, or a piece of one. */
export interface TextSpan {
  readonly kind: TextKind;
  readonly text: string;
  /** In a frame: pieces of the same name form one text, in the order of their frames. Absent: the text is complete here. */
  readonly piece?: string;
  /** In a response: set where some vendors repeat the text in other members. */
  readonly alternative?: TextAlternative;
}

const KIND_NAMES: Record<TextKind, true> = {
  system: true,
  user: true,
  assistant: true,
  reasoning: true,
  tool_call: true,
  tool_result: true,
};
const TEXT_KINDS: ReadonlySet<string> = new Set(Object.keys(KIND_NAMES));

/** Maps a text to its replacement. */
export type MapText = (text: string, kind: TextKind) => string;

/** Returns the texts of a request, in order. @throws GatewayError `invalid_field` where a name is in other letters */
export function requestTexts(body: Body, protocol: Protocol, kinds?: readonly TextKind[]): TextSpan[] {
  const { json, places } = requestPlaces(body, protocol, kinds);
  return places.flatMap((place) => spansAt(json, place));
}

/** Returns the places of a request's texts. @throws GatewayError `invalid_field` where a name is in other letters */
export function requestPlaces(body: Body, protocol: Protocol, kinds?: readonly TextKind[]) {
  const { texts } = protocol;
  if (!texts || !body.scan) return { json: undefined, places: [] };
  const json = body.uniqueJson();
  checkTextNames(json, protocol);
  const places = filterPlaces(texts.request(json), kinds);
  return { json, places: places.map((place) => checkJsonPlace(place, textAt(json, place.path))) };
}

/** Returns the texts of a complete response, or the pieces of texts in a frame. */
export function responseTexts(json: unknown, { texts }: Protocol, kinds?: readonly TextKind[]): TextSpan[] {
  return texts ? filterPlaces(texts.response(json), kinds).flatMap((place) => spansAt(json, place)) : [];
}

/**
 * Returns the texts of a complete response from its frames: pieces are joined, and texts that a stream repeats in full after
 * their pieces, or a vendor in another member, are left out.
 */
export function wholeResponseTexts(
  frames: readonly Frame[],
  protocol: Protocol,
  kinds?: readonly TextKind[],
): TextSpan[] {
  const spans = withoutRepetitions(
    frames.flatMap((frame) => {
      const json = frame.json();
      return json === undefined ? [] : responseTexts(json, protocol, kinds);
    }),
  );
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

/** Leaves out members that only repeat another member's text, or its beginning; white space may differ. */
function withoutRepetitions(spans: readonly TextSpan[]): readonly TextSpan[] {
  const texts = new Map<string, Map<string, string>>();
  for (const { alternative, text } of spans) {
    if (!alternative) continue;
    const { of, member } = alternative;
    const members = texts.get(of) ?? new Map<string, string>();
    texts.set(of, members.set(member, (members.get(member) ?? "") + text.replace(/\s+/g, "")));
  }
  const repeated = new Map([...texts].map(([of, members]) => [of, repeatedMembers(members)]));
  return spans.filter(({ alternative }) => !alternative || !repeated.get(alternative.of)?.has(alternative.member));
}

/** Returns the members with the beginning of another's text; of equal texts the first one counts. */
function repeatedMembers(members: ReadonlyMap<string, string>): Set<string> {
  const longestFirst = [...members].sort(([, a], [, b]) => b.length - a.length);
  const isRepeated = (text: string, n: number) =>
    longestFirst.slice(0, n).some(([, longer]) => longer.startsWith(text));
  return new Set(longestFirst.flatMap(([member, text], n) => (isRepeated(text, n) ? member : [])));
}

/** Returns the edits that replace texts of a request. @throws GatewayError `invalid_field` where a name is in other letters */
export function mapTextEdits(body: Body, protocol: Protocol, kinds: readonly TextKind[], map: MapText): Edit[] {
  const { json, places } = requestPlaces(body, protocol, kinds);
  const changes: [path: JsonPath, text: string][] = [];
  for (const place of places) {
    const before = textAt(json, place.path);
    const after = replaceText(before, place, (encode) => new WholeTextOutput((text) => map(text, place.kind), encode));
    if (after !== before) changes.push([place.path, after]);
  }
  return textEdits(body.bytes(), changes);
}

/** Returns the edits of a JSON text that replace the strings at some paths. */
export const textEdits = (json: Buffer, changes: readonly (readonly [path: JsonPath, text: string])[]): Edit[] =>
  changes.length === 0
    ? []
    : pathEdits(json, { replace: changes.map(([path, text]) => [path, JSON.stringify(text)] as const) });

/** @throws TypeError for a kind that there is not: nothing would be found, without a word */
export function filterPlaces(places: Iterable<TextPlace>, kinds: readonly TextKind[] | undefined): TextPlace[] {
  const all = [...places];
  const unknown = kinds?.find((kind) => !TEXT_KINDS.has(kind));
  if (unknown !== undefined)
    throw new TypeError(`There are no texts of the kind "${unknown}", but of ${[...TEXT_KINDS].join(", ")}.`);
  return kinds ? all.filter(({ kind }) => kinds.includes(kind)) : all;
}

/** Returns the text at the path of a place, which the protocol has found there. */
export const textAt = (json: unknown, path: JsonPath): string =>
  path.reduce<unknown>((value, name) => (value as Record<string | number, unknown>)[name], json) as string;

/**
 * Returns the output for the texts at a place.
 * @param make is given the function that encodes replacements for the source
 */
export const createTextOutput = (
  place: TextPlace,
  make: (encode?: (text: string) => string) => TextOutput,
): TextOutput => (place.json ? new JsonTextOutput(make(escapeJson)) : make());

/** Returns the replacement of a complete text. */
export function replaceText(
  text: string,
  place: TextPlace,
  make: (encode?: (text: string) => string) => TextOutput,
): string {
  const output = createTextOutput(place, make);
  return output.push(text) + output.end();
}

/** Treats a text that a client declares as JSON but that is not JSON as plain text, so that all of it is seen. */
const checkJsonPlace = (place: TextPlace, text: string): TextPlace =>
  place.json && !isJsonText(text) ? { path: place.path, kind: place.kind } : place;

/** Returns the text at a place; of a complete JSON text, the strings in it. */
function spansAt(json: unknown, place: TextPlace): TextSpan[] {
  const { kind, piece, alternative } = place;
  const text = textAt(json, place.path);
  const marked = alternative === undefined ? { kind } : { kind, alternative };
  if (piece !== undefined) return [{ ...marked, text, piece }];
  const spans: TextSpan[] = [];
  const keep = (each: string): string => {
    if (each !== "") spans.push({ ...marked, text: each });
    return each;
  };
  replaceText(text, place, (encode) => new WholeTextOutput(keep, encode));
  return spans;
}
