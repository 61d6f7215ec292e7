import { CREDENTIAL_HEADERS, type HeaderList, KEY_HEADERS } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";

/** Query parameters in which some clients send a key, in lower case without separators; only `key` is read. */
const KEY_PARAMETERS: ReadonlySet<string> = new Set([
  ...["key", "$key", "apikey", "xapikey", "xgoogapikey", "subscriptionkey", "clientsecret", "secretkey", "secret"],
  ...["accesstoken", "authtoken", "oauthtoken", "bearertoken", "token", "authorization", "password"],
]);

/** Parameters that some servers read as the method, as headers, or as the body's type. */
const OVERRIDES: ReadonlySet<string> = new Set([
  ...["method", "$httpmethod", "httpmethod", "xhttpmethod", "xhttpmethodoverride", "xmethodoverride"],
  ...["$httpheaders", "httpheaders", "$ct", "$userproject", "userproject"],
]);

/**
 * Removes everything that may be a gateway key from a request's headers and query, so that later code can neither forward nor log
 * it; also other credentials, and parameters that would give a provider another method, other headers or another body type than
 * those that were checked. Returns the keys in the order of their places, without duplicates.
 */
export function takeKeys(headers: HeaderList, query: Query): string[] {
  const found: string[] = [];
  const authorization = headers.get("authorization");
  if (authorization !== undefined) addKey(found, bearerToken(authorization));
  for (const name of KEY_HEADERS) addKey(found, headers.get(name)?.trim());
  addKey(found, query.get("key"));
  headers.deleteWhere(isCredentialHeader);
  query.removeWhere(isRemovedParameter);
  return found;
}

function isRemovedParameter(name: string): boolean {
  const plain = name.toLowerCase().replaceAll(/[-_.\s]/g, "");
  return KEY_PARAMETERS.has(plain) || OVERRIDES.has(plain);
}

/** Returns the token of `Bearer TOKEN`, in any case and with any number of spaces around it. */
function bearerToken(value: string): string | undefined {
  const token = value.slice(USUAL_SCHEME.length);
  // The usual spelling first: an expression with a group takes five times as long.
  return value.startsWith(USUAL_SCHEME) && token !== "" && !SPACE.test(token)
    ? token
    : /^Bearer +(\S+) *$/i.exec(value)?.[1];
}

const USUAL_SCHEME = "Bearer ";
const SPACE = /\s/;

/** Returns the first header value that may hold a key, to distinguish callers before authentication. */
export function presentedKey(headers: HeaderList): string | undefined {
  for (const name of PRESENTED) {
    const value = headers.get(name);
    if (value !== undefined) return value;
  }
  return undefined;
}

const PRESENTED = ["authorization", ...KEY_HEADERS];

const isCredentialHeader = (name: string): boolean => CREDENTIAL_HEADERS.has(name);

function addKey(found: string[], key: string | null | undefined): void {
  if (key && !found.includes(key)) found.push(key);
}
