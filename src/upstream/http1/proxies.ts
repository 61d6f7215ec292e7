/** A proxy between the gateway and providers, that speaks HTTP/1.1. */
export interface HttpProxy {
  /** Scheme, host and port: what may be told of it. */
  readonly origin: string;
  readonly host: string;
  readonly port: number;
  /** The connection to the proxy itself is TLS. */
  readonly secure: boolean;
  /** The field line with its credentials, and the line's end; empty: it asks for none. */
  readonly authorization: string;
}

/** An entry of NO_PROXY. */
interface Exemption {
  /** In lower case, without the dot before or behind it; empty: every host. */
  readonly host: string;
  /** 0: every port. */
  readonly port: number;
  /** The host itself is meant too, not only what lies below it. */
  readonly apex: boolean;
}

/**
 * Which proxy stands in front of an origin, as the environment says it: `https_proxy` for https, or else `http_proxy`;
 * `http_proxy` for http; none for what `no_proxy` names. Names in lower case come before those in upper case. This is how
 * curl and most clients read them, but that curl takes no `HTTP_PROXY` and does not fall back from https to http.
 */
export class Proxies {
  private readonly http: HttpProxy | undefined;
  private readonly https: HttpProxy | undefined;
  private readonly exemptions: readonly Exemption[];

  /** @throws Error for an address that is none of a proxy; it names the variable, and nothing of its value. */
  constructor(environment: Readonly<Record<string, string | undefined>>) {
    const proxy = (name: string): HttpProxy | undefined => {
      const value = environment[name] ?? environment[name.toUpperCase()] ?? "";
      return value === "" ? undefined : proxyAt(value, name.toUpperCase());
    };
    this.http = proxy("http_proxy");
    this.https = proxy("https_proxy") ?? this.http;
    const exempt = environment["no_proxy"] ?? environment["NO_PROXY"] ?? "";
    this.exemptions = exempt
      .split(/[,\s]+/)
      .filter((entry) => entry !== "")
      .map(exemption);
  }

  /** The proxy to ask for connections to an origin; undefined: none stands in between. */
  for({ protocol, hostname, port }: URL): HttpProxy | undefined {
    const proxy = protocol === "https:" ? this.https : this.http;
    if (!proxy) return undefined;
    const host = plain(hostname);
    const number = Number(port) || (protocol === "https:" ? 443 : 80);
    const exempt = this.exemptions.some(
      (each) =>
        (each.port === 0 || each.port === number) &&
        (each.host === "" || (each.apex && host === each.host) || host.endsWith(`.${each.host}`)),
    );
    return exempt ? undefined : proxy;
  }
}

/** An address as the variables have it: the scheme may be left out. */
function proxyAt(value: string, name: string): HttpProxy {
  const wrong = new Error(`${name} is not the address of a proxy: http://HOST:PORT or https://HOST:PORT is wanted.`);
  const url = URL.parse(value.includes("://") ? value : `http://${value}`);
  if (!url || !/^https?:$/.test(url.protocol) || url.hostname === "") throw wrong;
  const { username, password, origin, protocol, hostname, port } = url;
  const secure = protocol === "https:";
  let authorization = "";
  if (username !== "" || password !== "") {
    try {
      const pair = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
      authorization = `proxy-authorization: Basic ${pair.toString("base64")}\r\n`;
    } catch {
      throw wrong;
    }
  }
  return { origin, host: unbracketed(hostname), port: Number(port) || (secure ? 443 : 80), secure, authorization };
}

/** `host`, `.host`, `*.host` (only what lies below it), `host:port`, `[::1]:port`, `::1`, `*`. */
function exemption(entry: string): Exemption {
  const [, name = entry, port = "0"] = /^(\[.+\]|[^:]+):(\d+)$/.exec(entry) ?? [];
  const host = name === "*" ? "" : plain(name).replace(/^\*?\./, "");
  return { host, port: Number(port), apex: !name.startsWith("*.") };
}

/** In lower case, without brackets and without the dot that ends a full name. */
const plain = (host: string): string =>
  unbracketed(host)
    .toLowerCase()
    .replace(/(?<=.)\.$/, "");

/** An address as sockets take it. */
export const unbracketed = (host: string): string => host.replace(/^\[(.*)\]$/, "$1");
