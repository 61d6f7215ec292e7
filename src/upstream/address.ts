import type { Attempt } from "../core/attempt.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Credential } from "../core/marketplace.ts";
import type { Protocol } from "../core/protocol.ts";
import { flatText } from "../wire/flat-text.ts";

/**
 * Returns path and query of an attempt, relative to the provider's origin, as a plugin has set them or as the protocol defines
 * them.
 */
export function upstreamPath(exchange: Exchange, { target, protocol, operation, query, path }: Attempt): string {
  if (path !== undefined) return path;
  const { provider, model } = target;
  const text = query ?? exchange.query.toString();
  const operationPath = (operation ?? exchange.operation).upstream(model);
  return `${basePath(provider.url, protocol)}${operationPath}${text === "" ? "" : `?${text}`}`;
}

/** Returns the address's path; for a bare origin the protocol's default version segment. */
export function basePath(url: URL, protocol: Protocol): string {
  return url.pathname === "/" ? protocol.versionSegment : url.pathname;
}

/** Adds our credential, in the protocol's own way or in the header that gateway.yaml names. */
export function addCredential({ target: { provider }, credential, protocol, headers }: Attempt): void {
  if (credential === undefined) return;
  const { name, value } = credentialLine(credential, protocol, provider.header);
  headers.set(name, value);
}

interface CredentialLine {
  readonly protocol: Protocol;
  readonly header: string | undefined;
  readonly name: string;
  readonly value: string;
}

/** The line in which each credential was last sent: a value that is concatenated for each request is also copied for each. */
const credentialLines = new WeakMap<Credential, CredentialLine>();

function credentialLine(credential: Credential, protocol: Protocol, header: string | undefined): CredentialLine {
  const known = credentialLines.get(credential);
  if (known?.protocol === protocol && known.header === header) return known;
  const [name, value] = header === undefined ? protocol.credential(credential.secret) : [header, credential.secret];
  const line = { protocol, header, name, value: flatText(value) };
  credentialLines.set(credential, line);
  return line;
}

/** Returns an address with another path and query; no path can change its host. */
export function urlWithPath(url: URL, path: string): URL {
  const address = new URL(url);
  const queryStart = path.indexOf("?");
  address.pathname = queryStart < 0 ? path : path.slice(0, queryStart);
  address.search = queryStart < 0 ? "" : path.slice(queryStart);
  return address;
}
