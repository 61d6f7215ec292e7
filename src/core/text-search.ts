import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonPath } from "../wire/paths.ts";
import type { Edit } from "../wire/splice.ts";
import type { Body } from "./body.ts";
import { GatewayError } from "./errors.ts";
import type { Protocol, TextKind } from "./protocol.ts";
import { type Replace, type TextMatch, TextPattern, TextReplacer } from "./text-replacer.ts";
import { createTextOutput, requestPlaces, type TextSpan, textAt, textEdits } from "./texts.ts";

/** Characters that are searched in one turn of the event loop, so that a large request does not delay others. */
const CHARACTERS_A_TURN = 32 * 1024;

/** The request whose texts are searched. */
export interface SearchedRequest {
  readonly body: Body;
  readonly protocol: Protocol;
  /** Whether it has ended: nobody waits for the rest of the search. */
  readonly hasEnded: () => boolean;
}

/**
 * Returns the edits that replace what a pattern matches in the texts of a request, in many turns if they are long.
 * @throws GatewayError `invalid_field` where a name is in other letters, `client_gone` once the request has ended
 * @throws SyntaxError for a pattern that can match the empty string
 */
export async function replaceMatches(request: SearchedRequest, match: TextMatch, replace: Replace): Promise<Edit[]> {
  const steps = replacing(request, match, replace);
  let step = steps.next();
  while (!step.done) {
    await turnOf(request);
    step = steps.next();
  }
  return step.value;
}

/** Returns the first match in the texts of a request, with the kind of its text. @throws as `replaceMatches` */
export async function findMatch(request: SearchedRequest, match: TextMatch): Promise<TextSpan | undefined> {
  let found: TextSpan | undefined;
  const steps = replacing(request, match, (text, kind) => {
    found ??= { kind, text };
    return text;
  });
  while (!steps.next().done && !found) await turnOf(request);
  return found;
}

/** Waits for the next turn of the event loop. @throws GatewayError `client_gone` once the request has ended */
async function turnOf({ hasEnded }: SearchedRequest): Promise<void> {
  await nextTurn();
  if (hasEnded()) throw new GatewayError("client_gone");
}

function* replacing(
  { body, protocol }: SearchedRequest,
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
    for (let from = 0; from < before.length; from += CHARACTERS_A_TURN) {
      const piece = before.slice(from, from + CHARACTERS_A_TURN);
      after += output.push(piece);
      searched += piece.length;
      if (searched < CHARACTERS_A_TURN) continue;
      searched = 0;
      yield;
    }
    after += output.end();
    if (after !== before) changes.push([place.path, after]);
  }
  return textEdits(body.bytes(), changes);
}
