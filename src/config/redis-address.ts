import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";

const WRITE = "write memory, or redis://HOST:6379 (rediss:// with TLS)";

/** Certificate files that a URL with TLS may name, with the option names of Redis' own client. */
const FILES = ["cacert", "cert", "key"] as const;

const CERTIFICATE = /-----BEGIN [^-]*CERTIFICATE-----[^-]*(?:-----END [^-]*CERTIFICATE-----|$)/g;

/** An error in a URL. */
class RedisMistake extends Error {}

/**
 * Parses the URL of a Redis or Valkey server, or returns the error in it, without repeating the URL, as it may contain a
 * password.
 * @param folder the base of relative certificate files; they are absolute in the result
 */
export function redisAddress(text: string, folder: string): { url: string } | { problem: string } {
  try {
    return { url: addressIn(text, folder) };
  } catch (thrown) {
    if (thrown instanceof RedisMistake) return { problem: thrown.message };
    throw thrown;
  }
}

function addressIn(text: string, folder: string): string {
  if (!/^rediss?:/.test(text)) throw new RedisMistake(`not a store for limits; ${WRITE}`);
  const url = URL.parse(text);
  if (!url || url.hostname === "") throw new RedisMistake(`not an address of a server; ${WRITE}`);
  const files = filesOf(url, folder);
  if (!/^\/?\d{0,4}$/.test(url.pathname))
    throw new RedisMistake("behind the host there may only be the number of a database, like redis://HOST/1");
  for (const word of [url.username, url.password])
    try {
      decodeURIComponent(word);
    } catch {
      throw new RedisMistake("its user or password has a % that starts no escape; write it as %25");
    }
  if (files.size === 0) return text;
  url.search = new URLSearchParams([...files]).toString();
  return url.href;
}

/** Returns the files that a URL names, after trying to load each. */
function filesOf({ protocol, searchParams, hash }: URL, folder: string): Map<string, string> {
  const files = new Map<string, string>();
  for (const [name, file] of searchParams) {
    if (!FILES.includes(name as (typeof FILES)[number]))
      throw new RedisMistake(`addresses of Redis take no options but ${FILES.join(", ")}; others would change nothing`);
    if (files.has(name)) throw new RedisMistake(`the address of Redis has ${name} twice`);
    files.set(name, resolve(folder, file));
  }
  if (hash !== "") throw new RedisMistake("addresses of Redis have no # part; in a password it is written %23");
  if (files.size > 0 && protocol !== "rediss:")
    throw new RedisMistake("files of certificates need TLS: write rediss://");
  if (files.has("cert") !== files.has("key"))
    throw new RedisMistake("cert and key of an address of Redis come together");
  const { cacert: ca, ...own } = Object.fromEntries([...files].map(([name, file]) => [name, pem(name, file)]));
  try {
    createSecureContext(own);
    // A secure context ignores unreadable certificates of an authority, and connections fail later.
    for (const [one] of (ca ?? "").matchAll(CERTIFICATE)) new X509Certificate(one);
  } catch (thrown) {
    const { message } = thrown as Error;
    throw new RedisMistake(`the files of certificates in the address of Redis cannot be used: ${message}`);
  }
  if (ca !== undefined && ca.search(CERTIFICATE) < 0)
    throw new RedisMistake("cacert: there is no certificate in the file");
  return files;
}

function pem(name: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (thrown) {
    throw new RedisMistake(`${name}: ${file} cannot be read: ${(thrown as NodeJS.ErrnoException).code}`);
  }
}
