import { type HeaderList, headerValues } from "./headers.ts";

/** The position of a request in a trace (W3C Trace Context, https://www.w3.org/TR/trace-context/). */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** The caller's own span, 16 hexadecimal digits. */
  readonly parentId: string;
  readonly sampled: boolean;
}

/** Later versions may append more after a further hyphen (§2.2.1). */
const PARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** A list member: a key, optionally of a tenant, and printable text without comma and equals sign (§3.3.1). */
const MEMBER =
  /^[a-z0-9][a-z0-9_\-*/]{0,240}(?:@[a-z][a-z0-9_\-*/]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const MAX_MEMBERS = 32;
const MAX_STATE_BYTES = 512;

const VERSION = "00-";
const formatTraceparent = ({ traceId, parentId, sampled }: TraceContext): string =>
  `${VERSION}${traceId}-${parentId}-${sampled ? "01" : "00"}`;

/** Parses a `traceparent`; undefined if it is invalid. */
export function parseTraceparent(text: string): TraceContext | undefined {
  const [, version, traceId, parentId, flags, extra] = PARENT.exec(text) ?? [];
  if (!traceId || !parentId || !flags || (version === "00" && extra !== undefined)) return undefined;
  return { traceId, parentId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** Returns the trace that a request belongs to; undefined if it names none, or more than one. */
export function readTraceContext(headers: HeaderList): TraceContext | undefined {
  const text = headers.get("traceparent");
  if (text === undefined || headers.repeated(NAMES) !== undefined) return undefined;
  return parseTraceparent(text);
}

/** Reports whether a `tracestate` may be forwarded; one that is too long or not a list is dropped completely (§3.3.1.5). */
export function isTracestate(text: string): boolean {
  if (text.length > MAX_STATE_BYTES) return false;
  const members = text.split(",").map((member) => member.trim());
  return members.length <= MAX_MEMBERS && members.every((member) => member === "" || MEMBER.test(member));
}

/** Removes invalid trace headers: an invalid or repeated `traceparent`, and a `tracestate` that is malformed or without one. */
export function dropInvalidTrace(headers: HeaderList): void {
  const parent = headers.has("traceparent");
  if (!parent && !headers.has("tracestate")) return;
  const trace = parent ? readTraceContext(headers) : undefined;
  const valid = trace !== undefined;
  if (!valid) headers.delete("traceparent");
  // What a later version appends may be anything; the known part is sent as this version (§2.2.1).
  else if (!headers.get("traceparent")?.startsWith(VERSION)) headers.set("traceparent", formatTraceparent(trace));
  const states = headerValues(headers, "tracestate");
  if (states.length > 0 && (!valid || !isTracestate(states.join(",")))) headers.delete("tracestate");
}

const NAMES = ["traceparent"];
