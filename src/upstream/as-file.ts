import type { HeaderList } from "../wire/headers.ts";

/** Told once, in one value: browsers take the last of several, which RFC 9110 §8.3 does not know. */
const DATA = /^(?:application\/(?:[\w.-]+\+)?json|text\/event-stream)[ \t]*(?:;[^,]*)?$/i;
const TYPE: ReadonlySet<string> = new Set(["content-type"]);
const AS_FILE = [
  ["content-security-policy", "sandbox"],
  ["x-content-type-options", "nosniff"],
] as const;

/**
 * Keeps browsers from taking an answer for a page of this host, where the marketplace keeps a typed key: what is not plainly
 * JSON or a stream of events runs nothing there.
 */
export function asFile(headers: HeaderList): void {
  if (DATA.test(headers.get("content-type") ?? "") && headers.repeated(TYPE) === undefined) return;
  for (const [name, value] of AS_FILE) headers.set(name, value);
}
