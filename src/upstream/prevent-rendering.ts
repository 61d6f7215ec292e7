import type { HeaderList } from "../wire/headers.ts";

/** A single value: browsers use the last of several, which RFC 9110 §8.3 does not allow. */
const DATA_TYPE = /^(?:application\/(?:[\w.-]+\+)?json|text\/event-stream)[ \t]*(?:;[^,]*)?$/i;
const TYPE = ["content-type"];
const SANDBOX_HEADERS = [
  ["content-security-policy", "sandbox"],
  ["x-content-type-options", "nosniff"],
] as const;

/**
 * Keeps browsers from rendering a response as a page of this host, where the marketplace stores a typed key: anything but JSON or
 * an event stream is sandboxed.
 */
export function preventRendering(headers: HeaderList): void {
  if (DATA_TYPE.test(headers.get("content-type") ?? "") && headers.repeated(TYPE) === undefined) return;
  for (const [name, value] of SANDBOX_HEADERS) headers.set(name, value);
}
