import { CREDENTIAL_HEADERS, type HeaderList, KEY_HEADERS } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";

/**
 * Takes everything that may be a gateway key out of a request's headers and query, so that nothing behind can forward or
 * log it. In the order of its places, without repetitions.
 */
export function credentials(headers: HeaderList, query: Query): string[] {
  const found: string[] = [];
  const authorization = headers.get("authorization");
  if (authorization !== undefined) add(found, /^Bearer +(\S+) *$/i.exec(authorization)?.[1]);
  for (const name of KEY_HEADERS) add(found, headers.get(name)?.trim());
  add(found, query.get("key"));
  headers.deleteWhere(isTaken);
  query.delete("key");
  return found;
}

const isTaken = (name: string): boolean => CREDENTIAL_HEADERS.has(name);

function add(found: string[], key: string | null | undefined): void {
  if (key && !found.includes(key)) found.push(key);
}
