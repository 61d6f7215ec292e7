/** Small parts that several wire formats are made of. None of them is any vendor's own. */
import type { Conversation, Tool } from "./conversation.ts";
import type { ErrorKind } from "./errors.ts";
import type { Operation, Protocol } from "./protocol.ts";

export type JsonObject = Record<string, unknown>;

/** The value as an object; undefined for arrays, null and everything else. */
export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined;
}

/** A table's entry for a word from outside: `constructor` and its like are in every object, and in no table. */
export function entryOf<T>(table: Readonly<Record<string, T>>, word: string | undefined): T | undefined {
  return word !== undefined && Object.hasOwn(table, word) ? table[word] : undefined;
}

/** The value as a list, empty where it is none. */
export const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** The value as a string; undefined for everything else. */
export const asText = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);

/** The value as a count: an integer of 0 or more. Vendors also send null, floats and strings where a count belongs. */
export function asCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}

/** The members of an object that are counts; undefined where there are none. */
export function counts(value: unknown): Record<string, number> | undefined {
  const found = Object.entries(asObject(value) ?? {}).filter(([, count]) => asCount(count) !== undefined);
  return found.length === 0 ? undefined : (Object.fromEntries(found) as Record<string, number>);
}

/** The smaller of the two that are there. For a part that a vendor reports as larger than its whole. */
export function atMost(part: number | undefined, whole: number | undefined): number | undefined {
  return part === undefined || whole === undefined ? part : Math.min(part, whole);
}

/** The object without the members that are undefined. */
export function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const kept: Record<string, unknown> = {};
  // A loop, because this runs for each answer: entries and their list cost ten times as much.
  for (const name in value) if (value[name] !== undefined) kept[name] = value[name];
  return kept as never;
}

/** All text of a message's content: the content itself, or the `text` of its parts, a line each. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const texts = asList(content).map((part) => asText(part) ?? asText(asObject(part)?.["text"]));
  return texts.filter((text) => text !== undefined).join("\n");
}

/** Name and value of the header that shows a credential as a bearer token (RFC 6750). */
export const bearer = (secret: string): readonly [name: string, value: string] => ["authorization", `Bearer ${secret}`];

/** A comment that keeps a silent event stream alive; parsers skip it. */
export const PING: Buffer = Buffer.from(": ping\n\n");

/** One server-sent event: its name, where it has one, and a value as JSON. */
export function eventBytes(value: unknown, name?: string): Buffer {
  const line = name === undefined ? "" : `event: ${name}\n`;
  return Buffer.from(`${line}data: ${JSON.stringify(value)}\n\n`);
}

/** An operation asked by a POST with a JSON body, streaming events when the body says so; `more` tells what differs. */
export function post(name: string, upstream: string, more: Partial<Operation> = {}): Operation {
  return {
    name,
    method: "POST",
    body: "json",
    streams: "asked",
    framing: "sse",
    generates: true,
    upstream: () => upstream,
    ...more,
  };
}

/** Whether web search may be used, as far as the choice among tools says. */
export function maySearch({ toolChoice }: Conversation, search: Tool & { kind: "web_search" }): boolean {
  if (search.apart) return true;
  switch (toolChoice?.mode) {
    case "none":
      return false;
    case "named":
      return toolChoice.server === true && toolChoice.name === "web_search";
    case "allowed":
      return toolChoice.names.includes("web_search");
    default:
      return true;
  }
}

/** `paths` and `locate` of a protocol where each path stands for one operation. */
export function fixedPaths(operations: Readonly<Record<string, Operation>>): Pick<Protocol, "paths" | "locate"> {
  const byPath = new Map(Object.entries(operations));
  return {
    paths: [...byPath.keys()],
    locate(path) {
      const operation = byPath.get(path);
      return operation && { operation };
    },
  };
}

/** What went wrong, as far as a protocol has words for it. A GatewayError is one. */
export interface Fault {
  readonly status: number;
  readonly kind: ErrorKind;
  readonly code: string;
  readonly message: string;
  readonly param?: string | undefined;
  /** Seconds after which asking again makes sense. */
  readonly retryAfter?: number | undefined;
  /** The provider's own code, where the fault passes from one protocol to another. */
  readonly ownCode?: string | undefined;
}

/** The words one protocol has for kinds of faults; a code that is not listed stays the gateway's own. */
export interface ErrorWords {
  readonly type: Readonly<Record<ErrorKind, string>>;
  readonly code: Readonly<Partial<Record<ErrorKind, string>>>;
}

/** The error object `{message, type, param, code}` that several protocols nest under `error`. */
export function errorObject(fault: Fault, words: ErrorWords) {
  return {
    message: fault.message,
    type: words.type[fault.kind],
    param: fault.param ?? null,
    code: words.code[fault.kind] ?? fault.ownCode ?? fault.code,
  };
}
