import type { HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";

const HEADERS = ["x-api-key", "x-goog-api-key", "api-key"];

/**
 * Takes everything that may be a gateway key out of a request's headers and query, so that nothing behind can forward or
 * log it. In the order of its places, without repetitions.
 */
export function credentials(headers: HeaderList, query: Query): string[] {
  const found = new Set<string>();
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.get("authorization") ?? "")?.[1];
  if (bearer) found.add(bearer);
  for (const name of HEADERS) {
    const value = headers.get(name)?.trim();
    if (value) found.add(value);
  }
  const asked = query.get("key");
  if (asked) found.add(asked);
  headers.deleteWhere(
    (name) => name === "authorization" || name === "cookie" || name === "proxy-authorization" || HEADERS.includes(name),
  );
  query.delete("key");
  return [...found];
}
