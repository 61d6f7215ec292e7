import { BlockList, isIP } from "node:net";

/** Names and addresses of the local host. */
export const LOOPBACK = /^(?:localhost|\[?::1\]?|127\.\d+\.\d+\.\d+)$/;

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** Returns a plain IP address, an IPv4-mapped IPv6 address as IPv4; undefined for anything else. */
export function plainAddress(text: string): string | undefined {
  const address = MAPPED.exec(text)?.[1] ?? text;
  return isIP(address) === 0 ? undefined : address;
}

/** Returns the plain address of who opened a connection; empty for a Unix socket. */
export const peerAddress = ({ remoteAddress = "" }: { readonly remoteAddress?: string | undefined }): string =>
  plainAddress(remoteAddress) ?? "";

/** The host of a listener for all addresses. */
export const ALL_ADDRESSES = "::";

/** Returns where a listener is reached from this machine: on the loopback address if it is for all addresses. */
export const reachableHost = (host: string): string =>
  host === "0.0.0.0" || host === ALL_ADDRESSES ? "127.0.0.1" : host;

/**
 * Returns the options for `listen` of node. For all addresses they have no host: node then listens on those of IPv6 and IPv4, or of
 * IPv4 alone where the system has no IPv6.
 */
export const listenOptions = (address: object): object =>
  "host" in address && address.host === ALL_ADDRESSES ? { ...address, host: undefined } : address;

/** Returns the key for limits per address: of IPv6 the /64, which one customer usually has as a whole. */
export function addressLimitKey(address: string): string {
  if (!address.includes(":")) return address;
  const [left = [], right = []] = address.split("::").map((half) => (half === "" ? [] : half.split(":")));
  const zeros = address.includes("::") ? 8 - left.length - right.length : 0;
  const groups = [...left, ...Array<string>(Math.max(0, zeros)).fill("0"), ...right].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}

/** Addresses and ranges of addresses, like 127.0.0.1, 10.0.0.0/8 and fd00::/8. */
export class Networks {
  private readonly list = new BlockList();
  /** Whether the list is empty. */
  readonly empty: boolean;

  /** @throws RangeError that shows the accepted forms */
  constructor(texts: readonly string[] = []) {
    this.empty = texts.length === 0;
    for (const text of texts) this.add(text);
  }

  /**
   * Reports whether the list contains an address.
   * @param address as `plainAddress` returns it
   */
  has(address: string): boolean {
    if (this.empty) return false;
    return this.list.check(address, address.includes(":") ? "ipv6" : "ipv4");
  }

  /**
   * Returns the client's address behind a proxy of the list: what the proxies report, up to the first address that is not listed.
   * Entries by the client itself are left of that, and are ignored.
   * @param proxy the peer's address
   * @param forwardedFor values of X-Forwarded-For
   */
  clientAddress(proxy: string, forwardedFor: readonly string[]): string {
    let client = proxy;
    for (const entry of forwardedFor.flatMap((value) => value.split(",")).toReversed()) {
      const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d+)?|([^:]+):\d+)$/.exec(entry.trim()) ?? [];
      const next = plainAddress(bracketed ?? plain ?? entry.trim());
      if (next === undefined) return client;
      client = next;
      if (!this.has(client)) return client;
    }
    return client;
  }

  private add(text: string): void {
    const [written = "", bits, more] = text.split("/");
    const address = plainAddress(written);
    const family = address?.includes(":") ? "ipv6" : "ipv4";
    const most = family === "ipv6" ? 128 : 32;
    const prefix = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN;
    if (address === undefined || more !== undefined || !(prefix <= most))
      throw new RangeError(
        `${JSON.stringify(text)} is no address or range; write it like 127.0.0.1, 10.0.0.0/8 or fd00::/8`,
      );
    this.list.addSubnet(address, prefix, family);
  }
}
