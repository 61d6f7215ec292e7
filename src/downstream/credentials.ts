import type { HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";

const HEADERS = ["x-api-key", "x-goog-api-key", "api-key"];

/** Headers that no provider is to see, besides those. */
const OTHERS = ["authorization", "cookie", "proxy-authorization"];
const TAKEN: ReadonlySet<string> = new Set([...HEADERS, ...OTHERS]);

/**
 * Takes everything that may be a gateway key out of a request's headers and query, so that nothing behind can forward or
 * log it. In the order of its places, without repetitions.
 */
export function credentials(headers: HeaderList, query: Query): string[] {
  const found: string[] = [];
  const authorization = headers.get("authorization");
  if (authorization !== undefined) add(found, /^Bearer +(\S+) *$/i.exec(authorization)?.[1]);
  for (const name of HEADERS) add(found, headers.get(name)?.trim());
  add(found, query.get("key"));
  headers.deleteWhere(isTaken);
  query.delete("key");
  return found;
}

const isTaken = (name: string): boolean => TAKEN.has(name);

function add(found: string[], key: string | null | undefined): void {
  if (key && !found.includes(key)) found.push(key);
}
