/** What several targets judge by. */
import { GatewayError } from "../../src/core/errors.ts";
import type { Conversation } from "../../src/translation/conversation.ts";
import type { Event } from "../../src/translation/events.ts";
import type { Cast } from "../support/dice.ts";
import { holds } from "../support/guided.ts";
import { wronged } from "../support/wrong-values.ts";

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

/** The text, refusal and calls of an answer's first choice. Calls without an object of arguments are not for every client. */
function contentOf(events: readonly Event[]): { text: string; refusal: string; calls: string[] } {
  const blocks = events.flatMap((event) => (event.type === "open" ? [{ ...event, content: "" }] : []));
  for (const event of events)
    if (event.type === "text" || event.type === "arguments")
      (blocks[event.block] as (typeof blocks)[number]).content += event.text;
  const first = blocks.filter(({ choice }) => choice === 0);
  const joined = (kind: string) => first.map((block) => (block.kind === kind ? block.content : "")).join("");
  const calls = first.flatMap((block) => (block.kind === "tool_call" ? [[block.name, canonical(block.content)]] : []));
  const isWhole = ([, text = ""]: string[]) => text.startsWith("{") && parsed(Buffer.from(text)) !== undefined;
  return {
    ...{ text: joined("text"), refusal: joined("refusal") },
    calls: calls.filter(isWhole).map((call) => call.join(" ")),
  };
}

/** Whether no text of a block follows one of a later block. */
function inOrder(events: readonly Event[]): boolean {
  const blocks = events.flatMap((event) => (event.type === "text" ? [event.block] : []));
  return blocks.every((block, i) => i === 0 || block >= (blocks[i - 1] as number));
}

/** Checks that a client reads of an answer what its provider wrote. */
export function checkContent(written: readonly Event[], read: readonly Event[]): void {
  const [given, got] = [contentOf(written), contentOf(read)];
  const what = () => `read: ${JSON.stringify(got)}; written: ${JSON.stringify(given)}`;
  holds(given.calls.join("\n") === got.calls.join("\n"), what);
  // Most protocols have no place of their own for a refusal, and some have one for the vendor's reason. Texts that a provider
  // sends by turns reach some clients as they come, others one after the other.
  if (given.refusal + got.refusal === "" && inOrder(written)) holds(given.text === got.text, what);
  else holds(lostCharacters(given.text + given.refusal, got.text + got.refusal) === "", what);
}

/** The texts, calls and results of a conversation, of which no translation may leave out any. */
function textsOf({ turns }: Conversation): string {
  const all = turns.filter(({ role }) => role === "user" || role === "assistant").flatMap((turn) => turn.parts);
  const texts = all.flatMap((part) => {
    if (part.kind === "text") return [part.text];
    if (part.kind === "tool_call") return part.custom ? [] : [canonical(part.arguments)];
    if (part.kind !== "tool_result") return [];
    return [
      part.json ? canonical(part.json) : "",
      ...part.parts.map((each) => (each.kind === "text" ? each.text : "")),
    ];
  });
  return texts.join("");
}

/** Checks that a provider reads all texts, calls and results that a client wrote. */
export function checkTexts(written: Conversation, read: Conversation): void {
  const [given, got] = [textsOf(written), textsOf(read)];
  const lost = lostCharacters(given, got);
  holds(lost === "", () => `${lost} of ${given} is not in ${got}`);
}

/** The characters of a text that another one has less often, wherever they stand; white space aside. */
function lostCharacters(text: string, other: string): string {
  const left = new Map<string, number>();
  for (const letter of other) left.set(letter, (left.get(letter) ?? 0) + 1);
  return [...text]
    .filter((letter) => {
      const count = left.get(letter) ?? 0;
      left.set(letter, count - 1);
      return count <= 0 && letter.trim() !== "";
    })
    .join("");
}

/** JSON without white space; another text as it is. */
function canonical(text: string): string {
  const judged = parsed(Buffer.from(text === "" ? "{}" : text));
  return judged ? JSON.stringify(judged.json) : text;
}
