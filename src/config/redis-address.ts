import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { thrownMessage } from "../core/errors.ts";

const REDIS_HINT = "write memory, or redis://HOST:6379 (rediss:// with TLS)";

/** Certificate files that a URL with TLS may name, with the option names of Redis' own client. */
const FILE_PARAMETERS = ["cacert", "cert", "key"] as const;

const CERTIFICATE = /-----BEGIN [^-]*CERTIFICATE-----[^-]*(?:-----END [^-]*CERTIFICATE-----|$)/g;

/** An error in a URL. */
class RedisAddressError extends Error {}

/**
 * Parses the URL of a Redis or Valkey server, or returns the error in it, without repeating the URL, as it may contain a
 * password.
 * @param folder the base of relative certificate files; they are absolute in the result
 */
export function parseRedisAddress(text: string, folder: string): { url: string } | { problem: string } {
  try {
    return { url: parseAddress(text, folder) };
  } catch (thrown) {
    if (thrown instanceof RedisAddressError) return { problem: thrown.message };
    throw thrown;
  }
}

function parseAddress(text: string, folder: string): string {
  if (!/^rediss?:/.test(text)) throw new RedisAddressError(`not a store for limits; ${REDIS_HINT}`);
  const url = URL.parse(text);
  if (!url || url.hostname === "") throw new RedisAddressError(`not an address of a server; ${REDIS_HINT}`);
  const files = certificateFiles(url, folder);
  if (!/^\/?\d{0,4}$/.test(url.pathname))
    throw new RedisAddressError("behind the host there may only be the number of a database, like redis://HOST/1");
  for (const word of [url.username, url.password])
    try {
      decodeURIComponent(word);
    } catch {
      throw new RedisAddressError("its user or password has a % that starts no escape; write it as %25");
    }
  if (files.size === 0) return text;
  url.search = new URLSearchParams([...files]).toString();
  return url.href;
}

/** Returns the files that a URL names, after trying to load each. */
function certificateFiles({ protocol, searchParams, hash }: URL, folder: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const [name, file] of searchParams) {
    if (!FILE_PARAMETERS.includes(name as (typeof FILE_PARAMETERS)[number]))
      throw new RedisAddressError(
        `addresses of Redis take no options but ${FILE_PARAMETERS.join(", ")}; others would change nothing`,
      );
    if (files.has(name)) throw new RedisAddressError(`the address of Redis has ${name} twice`);
    files.set(name, resolve(folder, file));
  }
  if (hash !== "") throw new RedisAddressError("addresses of Redis have no # part; in a password it is written %23");
  if (files.size > 0 && protocol !== "rediss:")
    throw new RedisAddressError("files of certificates need TLS: write rediss://");
  if (files.has("cert") !== files.has("key"))
    throw new RedisAddressError("cert and key of an address of Redis come together");
  const { cacert: ca, ...own } = Object.fromEntries([...files].map(([name, file]) => [name, readPem(name, file)]));
  try {
    createSecureContext(own);
    // A secure context ignores unreadable certificates of an authority, and connections fail later.
    for (const [one] of (ca ?? "").matchAll(CERTIFICATE)) new X509Certificate(one);
  } catch (thrown) {
    const message = thrownMessage(thrown);
    throw new RedisAddressError(`the files of certificates in the address of Redis cannot be used: ${message}`);
  }
  if (ca !== undefined && ca.search(CERTIFICATE) < 0)
    throw new RedisAddressError("cacert: there is no certificate in the file");
  return files;
}

function readPem(name: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    throw new RedisAddressError(`${name}: ${file} cannot be read: ${(thrown as NodeJS.ErrnoException).code}`);
  }
}
