/** What several targets judge by. */
import { GatewayError } from "../../src/core/errors.ts";
import { holds } from "../support/guided.ts";
import type { dice } from "../support/random-answers.ts";
import { wronged } from "../support/wrong-values.ts";

/** Where chance comes from. */
export type Cast = ReturnType<typeof dice>;

/** What JSON is made of. */
export const JSON_WORDS = [
  ...[
    "{}",
    "[]",
    "null",
    "true",
    '""',
    "-0",
    "1e5",
    ",",
    ":",
    '{"a":',
    '["',
    '"]',
    "\\u0000",
    "\\ud800",
    "\\",
    '\\"',
    "\\n",
  ],
  ...[
    '"model":"a",',
    '"\\u006dodel":',
    "[[[[[[[[",
    "\xef\xbb\xbf",
    "\xc0\x80",
    "\xed\xa0\x80",
    "\xf0\x9f\x98\x80",
    " ",
    "0123",
  ],
];

/** A text as JSON, where it is that. */
export const parsed = (bytes: Buffer): { json: unknown } | undefined => {
  try {
    return { json: JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)) as unknown };
  } catch {
    return undefined;
  }
};

/** JSON with one value changed; undefined for what is no JSON. */
export function changedJson(bytes: Buffer, cast: Cast): Buffer | undefined {
  const judged = parsed(bytes);
  return judged && Buffer.from(JSON.stringify(wronged(judged.json, cast)) ?? "null");
}

/** Nothing but a GatewayError may be thrown, and none that hides a slip of ours. */
export function orRefused<T>(act: () => T, status?: number): T | undefined {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    if (error.cause instanceof TypeError || error.cause instanceof RangeError) throw error.cause;
    holds(status === undefined || error.status === status, () => `${error.status} ${error.code}: ${error.message}`);
    return undefined;
  }
}
