import { Attempt } from "../core/attempt.ts";
import { Body } from "../core/body.ts";
import type { BufferAccount } from "../core/buffer-memory.ts";
import type { Caller } from "../core/caller.ts";
import { GatewayError } from "../core/errors.ts";
import type { Exchange } from "../core/exchange.ts";
import { limitOwner } from "../core/limit-messages.ts";
import type { LimitLevel } from "../core/limits.ts";
import type { Provider } from "../core/marketplace.ts";
import type { ResumableUploads } from "../core/object-members.ts";
import type { Protocol } from "../core/protocol.ts";
import type { ObjectAccess } from "../objects/objects.ts";
import { PassThroughObjects } from "../objects/pass-through-objects.ts";
import { TICKET_PARAMETER, type UploadTickets } from "../objects/upload-tickets.ts";
import { addMissing, type HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";
import { dropInvalidTrace } from "../wire/trace-context.ts";
import { AllowList, REQUEST_HEADERS, RESPONSE_HEADERS, TRACE_HEADERS } from "./allow-list.ts";
import { callerIdOf } from "./health.ts";
import { scopeIdempotency } from "./idempotency.ts";

/** Request headers that are forwarded besides those of every protocol, because the body passes unchanged. */
const PASS_REQUEST_HEADERS = [
  ...["content-encoding", "content-language", "content-disposition", "content-range", "cache-control"],
  ...["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"],
];
/** The corresponding response headers. */
const PASS_RESPONSE_HEADERS = [
  ...["content-encoding", "content-range", "accept-ranges", "cache-control", "etag", "expires", "last-modified"],
];

/** A version segment at the start of a path. */
const VERSION = /^\/v\d+(?:\.\d+)?(?:(?:alpha|beta|preview)\d*)?(?=\/|$)/;

/** The options of a pass-through path in gateway.yaml. */
interface PassPathOptions {
  /** Accepts requests of keys that are limited in their models or their spending. */
  readonly open: boolean;
  /** Returns a limit on tokens or money that applies to the caller; undefined: none does. */
  readonly unmeasuredLimit?: (caller: Caller | undefined) => LimitLevel | undefined;
  /** Accepts requests that create keys of the vendor. */
  readonly mint: boolean;
  readonly tickets: UploadTickets;
  /** Whether the caller's trace headers are forwarded. */
  readonly trace?: boolean;
}

/** A pass-through path that matched a request. */
export interface PassMatch {
  readonly path: PassPath;
  /** The part of the request's path that is relative to the provider's address. */
  readonly below: string;
}

/** A path of gateway.yaml whose requests pass to one provider without being read. */
export class PassPath {
  readonly dialect: Protocol;
  private readonly requestAllowList: AllowList;
  private readonly responseAllowList: AllowList;
  private readonly uploads: readonly ResumableUploads[];

  /**
   * @param pattern may end in `/*`
   * @param provider undefined: it is switched off
   * @param protocols the provider's protocols, best first
   * @param allProtocols every protocol, as any of them may recognise a request that creates keys
   */
  constructor(
    readonly pattern: string,
    private readonly provider: Provider | undefined,
    readonly protocols: readonly Protocol[],
    private readonly allProtocols: readonly Protocol[],
    private readonly options: PassPathOptions,
  ) {
    this.dialect = protocols[0] as Protocol;
    this.uploads = protocols.flatMap(({ vendorObjects }) => vendorObjects?.resumableUploads ?? []);
    const uploadHeaders = this.uploads.flatMap(({ headers }) => headers);
    const protocolHeaders = [...protocols.flatMap(({ headers }) => headers), ...uploadHeaders];
    const trace = options.trace === true ? TRACE_HEADERS : [];
    this.requestAllowList = new AllowList([
      ...REQUEST_HEADERS,
      ...trace,
      ...PASS_REQUEST_HEADERS,
      ...protocolHeaders,
      ...(provider?.forward ?? []),
    ]);
    this.responseAllowList = new AllowList([
      ...RESPONSE_HEADERS,
      ...PASS_RESPONSE_HEADERS,
      ...protocols.flatMap(({ responseHeaders = [] }) => responseHeaders),
      ...uploadHeaders,
    ]);
  }

  /** Matches a path against the pattern. `/v1/files/*` matches `/v1/files` too. */
  match(path: string): PassMatch | undefined {
    const { pattern, stem } = this;
    const matches = stem === undefined ? path === pattern : path === stem || path.startsWith(`${stem}/`);
    return matches ? { path: this, below: path.slice(this.prefix.length) } : undefined;
  }

  private get stem(): string | undefined {
    return this.pattern.endsWith("/*") ? this.pattern.slice(0, -2) : undefined;
  }

  /**
   * The prefix to remove. A version segment stands for the provider's own, with the vendor's path after it; any other prefix
   * exists in the gateway only.
   */
  private get prefix(): string {
    const { pattern, stem } = this;
    // The whole path is the vendor's.
    if (this.isUnversioned(pattern)) return "";
    return VERSION.exec(pattern)?.[0] ?? stem ?? pattern;
  }

  /** Reports whether the vendor has this path outside its versions, as it has uploads. */
  private isUnversioned(path: string): boolean {
    return this.uploads.some((upload) => path.startsWith(`${upload.pathPrefix}/`));
  }

  /** Returns the provider's path for a relative one. */
  private providerPath(below: string): string {
    const { pathname } = (this.provider as Provider).url;
    return this.isUnversioned(below)
      ? `${withoutVersion(pathname)}${below}`
      : pathBelow(pathname, this.dialect.versionSegment, below);
  }

  /**
   * Rewrites the provider's addresses in response headers to lead through this path, with a ticket for the upload's next
   * requests; drops those that cannot be rewritten.
   */
  rewriteAddressHeaders(
    headers: HeaderList,
    { origin, caller, time }: Pick<Exchange, "origin" | "caller" | "time">,
  ): void {
    for (const { urlHeaders, sessionParameter: parameter } of this.uploads)
      for (const name of urlHeaders) {
        const address = headers.get(name);
        if (address === undefined) continue;
        const gatewayUrl = this.gatewayAddress(address, origin);
        if (gatewayUrl === undefined) headers.delete(name);
        else {
          const session = URL.parse(address)?.searchParams.get(parameter);
          const upload = { path: this.pattern, session: session ?? "" };
          const ticket = session
            ? `&${TICKET_PARAMETER}=${this.options.tickets.issue(caller?.id ?? "", upload, time)}`
            : "";
          headers.set(name, `${gatewayUrl}${ticket}`);
        }
      }
  }

  /**
   * Takes the ticket out of a query, so that it is neither forwarded nor logged.
   * @param below the part of the request's path that goes to the provider
   * @returns the id of the key that began the upload which the query names; empty: it was begun without a key; undefined: the
   * query names none, or without a valid ticket, or the path is none of uploads: a ticket is good for nothing else
   */
  takeTicket(below: string, query: Query, time: number): string | undefined {
    const ticket = query.get(TICKET_PARAMETER);
    if (ticket === null) return undefined;
    query.delete(TICKET_PARAMETER);
    if (!this.isUnversioned(below)) return undefined;
    const [session, second] = this.uploads.flatMap((upload) => query.all(upload.sessionParameter));
    if (session === undefined || second !== undefined) return undefined;
    return this.options.tickets.keyOf(ticket, { path: this.pattern, session }, time);
  }

  /**
   * Returns the gateway's address, through this path, for one of the provider's.
   * @param origin scheme and host of the client's request
   * @returns undefined for an address outside the provider's
   */
  gatewayAddress(address: string, origin = ""): string | undefined {
    const { provider, prefix, dialect } = this;
    const providerUrl = URL.parse(address);
    if (!provider || providerUrl?.origin !== provider.url.origin) return undefined;
    const { pathname, search } = providerUrl;
    const subpaths = [withoutVersion(provider.url.pathname), provider.url.pathname, dialect.versionSegment]
      .filter((start) => pathname.startsWith(`${start}/`))
      .map((start) => pathname.slice(start.length));
    // A path with the version twice leads there too, but looks wrong.
    if (VERSION.test(prefix)) subpaths.reverse();
    const subpath = subpaths.find((candidate) => this.providerPath(candidate) === pathname);
    return subpath === undefined ? undefined : `${origin}${prefix}${subpath}${search}`;
  }

  /**
   * Creates the attempt of a request, if the request is allowed.
   * @throws GatewayError key_not_allowed, no_target
   */
  createAttempt(exchange: Exchange, below: string): Attempt {
    const { provider, dialect, options } = this;
    const { caller, method } = exchange;
    if (caller?.models && !options.open)
      throw new GatewayError("key_not_allowed", {
        message: `The key "${caller.name}" may use some models only, and the model of requests on this pass-through path is not known.`,
        hint: "Use another key, or let the operator set open: true on the path.",
      });
    const level = options.open ? undefined : options.unmeasuredLimit?.(caller);
    if (level)
      throw new GatewayError("key_not_allowed", {
        message: `${limitOwner(level)} has a limit of tokens or a budget, and the usage of requests on this pass-through path is not known in advance.`,
        hint: "Use another key, or let the operator set open: true on the path.",
      });
    if (!options.mint && this.allProtocols.some((protocol) => protocol.createsKey?.(method, normalizePath(below))))
      throw new GatewayError("key_not_allowed", {
        message: "This request creates a vendor's own key, or begins a conversation, that works without this gateway.",
        hint: "Let the operator set mint: true on the path if that is wanted.",
      });
    if (!provider)
      throw new GatewayError("no_target", { message: "The provider of this path is switched off.", retry: false });
    const headers = exchange.headers.filter(this.requestHeaders(exchange.headers));
    dropInvalidTrace(headers);
    addMissing(headers, dialect.defaultHeaders);
    // The response is parsed for usage while it passes: decompressing it would cost more than the bytes saved between two data
    // centres.
    headers.append("accept-encoding", "identity");
    const target = { provider, model: "*", weight: 1 };
    scopeIdempotency(headers, exchange, target);
    const attempt = new Attempt({
      target,
      protocol: dialect,
      method,
      headers,
      body: Body.empty,
      startedAt: exchange.elapsed,
      caller: callerIdOf(exchange),
    });
    const query = exchange.query.toString();
    attempt.path = `${this.providerPath(below)}${query === "" ? "" : `?${query}`}`;
    return attempt;
  }

  /** Returns the objects that the request addresses and names. @throws GatewayError unsupported_encoding */
  objects(
    exchange: Exchange,
    below: string,
    objects: ObjectAccess,
    limit: number,
    memory?: BufferAccount,
  ): PassThroughObjects {
    return new PassThroughObjects(
      objects,
      exchange,
      this.provider?.name ?? "",
      below,
      this.protocols,
      limit,
      memory,
      this.open,
    );
  }

  /**
   * Reports whether a path belongs to the vendor's model API, as its protocols describe it. On any other path, such as account
   * management, a refusal says nothing about a credential that is meant for models.
   */
  isModelApi(below: string): boolean {
    const [first = ""] = segments(below);
    return this.protocols.some(({ paths, vendorObjects: vendor }) =>
      [...paths, ...(vendor?.collections ?? []), ...(vendor?.public ?? [])].some((path) => segments(path)[0] === first),
    );
  }

  /** Whether requests are accepted that may show one key the objects of another. */
  get open(): boolean {
    return this.options.open;
  }

  /** Returns the response headers that go to the client. */
  readonly responseHeaders = (received: HeaderList): HeaderList => {
    const connectionFields = connectionNames(received);
    return received.filter((name) => this.responseAllowList.allows(name) && !connectionFields?.has(name));
  };

  private requestHeaders(received: HeaderList): (name: string) => boolean {
    const connectionFields = connectionNames(received);
    return (name) => this.requestAllowList.allows(name) && !connectionFields?.has(name);
  }
}

/** Normalizes a path as the vendor may read it: without escapes, capitals, white space or matrix parameters. */
function normalizePath(path: string): string {
  return decodeURIComponent(path)
    .toLowerCase()
    .replaceAll(/;[^/]*|\s+/g, "")
    .replaceAll(/\/{2,}/g, "/")
    .replace(/(?<=.)\/$/, "");
}

/** Returns a path without a trailing version segment or slash. */
const withoutVersion = (path: string): string =>
  path.replace(/\/[^/]*$/, (last) => (last === "/" || VERSION.test(last) ? "" : last));

/** Returns the segments of a path, without a leading version. */
const segments = (path: string): string[] =>
  normalizePath(path)
    .replace(VERSION, "")
    .split("/")
    .filter((part) => part !== "");

/** Joins a path to the provider's; a version at the start of the path stands for the one that the provider's path ends with. */
function pathBelow(pathname: string, segment: string, below: string): string {
  const version = VERSION.exec(below)?.[0];
  if (pathname === "/") return version === undefined ? `${segment}${below}` : below;
  const replaced = version !== undefined && withoutVersion(pathname) !== pathname;
  return `${pathname}${replaced ? below.slice(version.length) : below}`;
}

/** Returns the hop-by-hop fields that only the Connection header names (RFC 9110 §7.6.1). */
function connectionNames(headers: HeaderList): Set<string> | undefined {
  let names: Set<string> | undefined;
  for (const [name, value] of headers.entries()) {
    if (name !== "connection") continue;
    names ??= new Set();
    for (const token of value.split(",")) names.add(token.trim().toLowerCase());
  }
  return names;
}
