import type { HeaderList } from "./headers.ts";

/** Where in a trace a request belongs (W3C Trace Context, https://www.w3.org/TR/trace-context/). */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The caller's own span, 16 hexadecimal digits. */
  readonly parentId: string;
  readonly sampled: boolean;
}

/** Later versions may have more behind a further hyphen (§2.2.1). */
const PARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** A member of a list: a key, perhaps of a tenant, and printable text without comma and equals sign (§3.3.1). */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/]{0,240}(?:@[a-z][a-z0-9_\-*/]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MEMBERS = 32;
const STATE_BYTES = 512;

/** What a `traceparent` says; undefined: it is none. */
export function parseTraceparent(text: string): TraceContext | undefined {
  const [, version, traceId, parentId, flags, more] = PARENT.exec(text) ?? [];
  if (!traceId || !parentId || !flags || (version === "00" && more !== undefined)) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The trace that a request belongs to; undefined: it tells of none, or of more than one. */
export function traceOf(headers: HeaderList): TraceContext | undefined {
  const text = headers.get("traceparent");
  if (text === undefined || headers.repeated(NAMES) !== undefined) return undefined;
  return parseTraceparent(text);
}

/** Whether a `tracestate` may go on; one that is too long or no list is left out as a whole (§3.3.1.5). */
export function isTracestate(text: string): boolean {
  if (text.length > STATE_BYTES) return false;
  const members = text.split(",").map((member) => member.trim());
  return members.length <= MEMBERS && members.every((member) => member === "" || MEMBER.test(member));
}

/** Takes out what is no trace: an invalid or repeated `traceparent`, and a `tracestate` without one or of wrong shape. */
export function dropInvalidTrace(headers: HeaderList): void {
  const parent = headers.has("traceparent");
  if (!parent && !headers.has("tracestate")) return;
  const valid = parent && traceOf(headers) !== undefined;
  if (!valid) headers.delete("traceparent");
  const states = Array.from(headers.entries()).flatMap(([name, value]) => (name === "tracestate" ? [value] : []));
  if (states.length > 0 && (!valid || !isTracestate(states.join(",")))) headers.delete("tracestate");
}

const NAMES: ReadonlySet<string> = new Set(["traceparent"]);
