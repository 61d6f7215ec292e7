import { BlockList, isIP } from "node:net";

/** An HTTP/1.1 proxy between the gateway and providers. */
export interface HttpProxy {
  /** Scheme, host and port: safe to log, without credentials. */
  readonly origin: string;
  /** The whole address, with its credentials, as Node's own agents take it. */
  readonly address: string;
  readonly host: string;
  readonly port: number;
  /** The connection to the proxy itself uses TLS. */
  readonly secure: boolean;
  /** The field line with its credentials, and the line's end; empty: it needs none. */
  readonly authorization: string;
}

/** An entry of NO_PROXY. */
interface Exemption {
  /** In lower case, without a leading or trailing dot; empty: every host. */
  readonly host: string;
  /** 0: every port. */
  readonly port: number;
  /** The host itself matches too, not only its subdomains. */
  readonly apex: boolean;
}

/**
 * Chooses the proxy for an origin from the environment: `https_proxy` for https, or else `http_proxy`; `http_proxy` for http;
 * none for hosts in `no_proxy`. Lower-case variables take precedence over upper-case ones. curl and most clients do the same,
 * except that curl ignores `HTTP_PROXY` and does not fall back from https to http.
 */
export class Proxies {
  private readonly http: HttpProxy | undefined;
  private readonly https: HttpProxy | undefined;
  private readonly exemptions: readonly Exemption[];
  private readonly exemptRanges = new BlockList();
  private readonly exemptOrigins = new Set<string>();

  /** @throws Error for an invalid proxy address; it names the variable, and nothing of its value. */
  constructor(environment: Readonly<Record<string, string | undefined>>) {
    const proxy = (name: string): HttpProxy | undefined => {
      const value = environment[name] ?? environment[name.toUpperCase()] ?? "";
      return value === "" ? undefined : parseProxy(value, name.toUpperCase());
    };
    this.http = proxy("http_proxy");
    this.https = proxy("https_proxy") ?? this.http;
    const exempt = environment["no_proxy"] ?? environment["NO_PROXY"] ?? "";
    const entries = exempt.split(/[,\s]+/).filter((entry) => entry !== "");
    this.exemptions = entries.map(parseExemption);
    for (const entry of entries) addRange(this.exemptRanges, entry);
  }

  /** Makes an origin be reached without a proxy, whatever the environment says: it is a server in this process. */
  exempt({ origin }: URL): void {
    this.exemptOrigins.add(origin);
  }

  /** Returns the proxy for connections to an origin; undefined: none. */
  for({ protocol, hostname, port, origin }: URL): HttpProxy | undefined {
    const proxy = protocol === "https:" ? this.https : this.http;
    if (!proxy || this.exemptOrigins.has(origin)) return undefined;
    const host = normalizeHost(hostname);
    const portNumber = Number(port) || (protocol === "https:" ? 443 : 80);
    const exempt = this.exemptions.some(
      (exemption) =>
        (exemption.port === 0 || exemption.port === portNumber) &&
        (exemption.host === "" || (exemption.apex && host === exemption.host) || host.endsWith(`.${exemption.host}`)),
    );
    const version = isIP(host);
    const inRange = version > 0 && this.exemptRanges.check(host, version === 6 ? "ipv6" : "ipv4");
    return exempt || inRange ? undefined : proxy;
  }
}

/** Parses a proxy address, in which the scheme is optional. */
function parseProxy(value: string, name: string): HttpProxy {
  const invalid = new Error(`${name} is not the address of a proxy: http://HOST:PORT or https://HOST:PORT is wanted.`);
  const url = URL.parse(value.includes("://") ? value : `http://${value}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "") throw invalid;
  const { username, password, origin, href: address, protocol, hostname, port } = url;
  const secure = protocol === "https:";
  let authorization = "";
  if (username !== "" || password !== "") {
    try {
      const pair = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
      authorization = `proxy-authorization: Basic ${pair.toString("base64")}\r\n`;
    } catch {
      throw invalid;
    }
  }
  const host = withoutBrackets(hostname);
  return { origin, address, host, port: Number(port) || (secure ? 443 : 80), secure, authorization };
}

/** Parses `host`, `.host`, `*.host` (subdomains only), `host:port`, `[::1]:port`, `::1`, `*`. */
function parseExemption(entry: string): Exemption {
  const [, name = entry, port = "0"] = /^(\[.+\]|[^:]+):(\d+)$/.exec(entry) ?? [];
  const host = name === "*" ? "" : normalizeHost(name).replace(/^\*?\./, "");
  return { host, port: Number(port), apex: !name.startsWith("*.") };
}

/** Adds a range of addresses, like `10.0.0.0/8`; an entry that is none adds nothing. */
function addRange(ranges: BlockList, entry: string): void {
  const [, address = "", bits = ""] = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(entry) ?? [];
  const version = isIP(address);
  if (version === 4 && Number(bits) <= 32) ranges.addSubnet(address, Number(bits), "ipv4");
  if (version === 6 && Number(bits) <= 128) ranges.addSubnet(address, Number(bits), "ipv6");
}

/** Returns a host in lower case, without brackets and without the trailing dot of a full name. */
const normalizeHost = (host: string): string =>
  withoutBrackets(host)
    .toLowerCase()
    .replace(/(?<=.)\.$/, "");

/** Returns an address without brackets, as sockets take it. */
export const withoutBrackets = (host: string): string => host.replace(/^\[(.*)\]$/, "$1");
