import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonPath } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import type { Protocol, TextKind } from "./protocol.ts";
import { type Replace, type TextMatch, TextPattern, TextReplacer } from "./text-replacer.ts";
import { createTextOutput, requestPlaces, type TextSpan, textAt, textEdits } from "./texts.ts";

/** Characters that are searched in one turn of the event loop, so that a large request does not delay others. */
const STEP = 32 * 1024;

/**
 * Returns the edits that replace what a pattern matches in the texts of a request, in many turns if they are long.
 * @throws GatewayError `invalid_field` where a name is in other letters
 * @throws SyntaxError for a pattern that can match the empty string
 */
export async function replaceMatches(
  body: Body,
  protocol: Protocol,
  match: TextMatch,
  replace: Replace,
): Promise<Edit[]> {
  const steps = replacing(body, protocol, match, replace);
  let step = steps.next();
  while (!step.done) {
    await nextTurn();
    step = steps.next();
  }
  return step.value;
}

/** Returns the first match in the texts of a request, with the kind of its text. @throws as `replaceMatches` */
export async function findMatch(body: Body, protocol: Protocol, match: TextMatch): Promise<TextSpan | undefined> {
  let found: TextSpan | undefined;
  const steps = replacing(body, protocol, match, (text, kind) => {
    found ??= { kind, text };
    return text;
  });
  while (!steps.next().done && !found) await nextTurn();
  return found;
}

function* replacing(
  body: Body,
  protocol: Protocol,
  match: TextMatch,
  replace: (match: string, kind: TextKind) => string,
): Generator<undefined, Edit[]> {
  const pattern = new TextPattern(match);
  const { json, places } = requestPlaces(body, protocol, match.kinds);
  const changes: [path: JsonPath, text: string][] = [];
  let searched = 0;
  for (const place of places) {
    const before = textAt(json, place.path);
    const output = createTextOutput(
      place,
      (encode) => new TextReplacer(pattern, (text) => replace(text, place.kind), encode),
    );
    let after = "";
    for (let from = 0; from < before.length; from += STEP) {
      const piece = before.slice(from, from + STEP);
      after += output.push(piece);
      searched += piece.length;
      if (searched < STEP) continue;
      searched = 0;
      yield;
    }
    after += output.end();
    if (after !== before) changes.push([place.path, after]);
  }
  return textEdits(body.bytes(), changes);
}
