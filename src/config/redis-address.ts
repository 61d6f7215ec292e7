const WRITE = "write memory, or redis://HOST:6379 (rediss:// with TLS)";

/** What is wrong with the address of a server of Redis or Valkey, without repeating it: it may hold a password. */
export function redisProblem(text: string): string | undefined {
  if (!/^rediss?:/.test(text)) return `not a store for limits; ${WRITE}`;
  const url = URL.parse(text);
  if (!url || url.hostname === "") return `not an address of a server; ${WRITE}`;
  if (url.search !== "" || url.hash !== "")
    return "addresses of Redis take no options: what stands behind ? or # would change nothing";
  if (!/^\/?\d{0,4}$/.test(url.pathname))
    return "behind the host there may only be the number of a database, like redis://HOST/1";
  for (const word of [url.username, url.password])
    try {
      decodeURIComponent(word);
    } catch {
      return "its user or password has a % that starts no escape; write it as %25";
    }
  return undefined;
}
