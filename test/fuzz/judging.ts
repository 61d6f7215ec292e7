/** What several targets judge by. */
import { GatewayError } from "../../src/core/errors.ts";
import type { Event } from "../../src/translation/events.ts";
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

/** Checks that events stand in the order that src/translation/events.ts promises. */
export function checkOrder(events: readonly Event[]): void {
  const open: boolean[] = [];
  let starts = 0;
  for (const [at, event] of events.entries()) {
    const wrong = () => `event ${at} of ${JSON.stringify(events)}`;
    const isLast = at === events.length - 1;
    if (event.type === "start") holds(++starts === 1 && open.length === 0, wrong);
    else if (event.type === "error" || event.type === "end") holds(isLast, wrong);
    else if (event.type === "open") {
      holds(starts === 1 && event.block === open.length, wrong);
      open.push(true);
    } else if ("block" in event) {
      holds(open[event.block] === true, wrong);
      if (event.type === "close") open[event.block] = false;
    }
    if (event.type === "end") holds(starts === 1 && !open.includes(true), wrong);
  }
}

/** The text and the calls of an answer's first choice, which no translation may change. */
export function contentOf(events: readonly Event[]): string {
  const blocks: { name: string; text: string }[] = [];
  for (const event of events)
    if (event.type === "open")
      blocks.push({
        name: event.choice > 0 ? "" : event.kind === "tool_call" ? `call ${event.name}` : event.kind,
        text: "",
      });
    else if (event.type === "text" || event.type === "arguments")
      (blocks[event.block] as (typeof blocks)[number]).text += event.text;
  const texts = blocks.map(({ name, text }) => (name === "text" ? text : ""));
  const calls = blocks.filter(({ name }) => name.startsWith("call ")).map(({ name, text }) => name + canonical(text));
  return [texts.join(""), ...calls].join("\n");
}

/** JSON without white space; another text as it is. */
export function canonical(text: string): string {
  const judged = parsed(Buffer.from(text === "" ? "{}" : text));
  return judged ? JSON.stringify(judged.json) : text;
}
