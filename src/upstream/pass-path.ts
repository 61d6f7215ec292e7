import { Body } from "../core/body.ts";
import { GatewayError } from "../core/errors.ts";
import { Attempt, type Exchange } from "../core/exchange.ts";
import type { LimitLevel } from "../core/limits.ts";
import { whose } from "../core/limits-words.ts";
import type { Caller, Provider } from "../core/marketplace.ts";
import type { Protocol, UploadWords } from "../core/protocol.ts";
import type { Objects } from "../objects/objects.ts";
import { PassingObjects } from "../objects/passing.ts";
import type { HeaderList } from "../wire/headers.ts";
import { dropInvalidTrace } from "../wire/trace-context.ts";
import { AllowList, REQUEST_HEADERS, RESPONSE_HEADERS, TRACE_HEADERS } from "./allow-list.ts";
import { callerOf } from "./health.ts";
import { scopeIdempotency } from "./idempotency.ts";

/** Request headers that go upstream besides those of every protocol, because the body passes as it is. */
const PASSED_UP = [
  ...["content-encoding", "content-language", "content-disposition", "content-range", "cache-control"],
  ...["range", "if-range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since"],
];
/** The same of response headers. */
const PASSED_DOWN = [
  ...["content-encoding", "content-range", "accept-ranges", "cache-control", "etag", "expires", "last-modified"],
];

/** A version segment at the start of a path. */
const VERSION = /^\/v\d+(?:\.\d+)?(?:(?:alpha|beta|preview)\d*)?(?=\/|$)/;

/** What gateway.yaml says of a path whose requests pass unread. */
interface PassPathOptions {
  /** Takes requests of keys that are limited to models or in what they may spend. */
  readonly open: boolean;
  /** A level at which tokens or money of that caller count; undefined: at none. */
  readonly unmeasured?: (caller: Caller | undefined) => LimitLevel | undefined;
  /** Takes requests that make the vendor's own keys. */
  readonly mint: boolean;
  /** Whether the caller's trace goes on. */
  readonly trace?: boolean;
}

/** A request that passes unread, and where it goes. */
export interface PassMatch {
  readonly path: PassPath;
  /** The part of its path that stands below the provider's address. */
  readonly below: string;
}

/** A path of gateway.yaml that leads to one provider, and passes what it takes unread. */
export class PassPath {
  readonly dialect: Protocol;
  private readonly up: AllowList;
  private readonly down: AllowList;
  private readonly uploads: readonly UploadWords[];

  /**
   * @param pattern may end in `/*`
   * @param provider undefined: it is off
   * @param spoken the protocols of the provider, best first
   * @param all the protocols there are: any of them may know a call that makes keys
   */
  constructor(
    readonly pattern: string,
    private readonly provider: Provider | undefined,
    readonly spoken: readonly Protocol[],
    private readonly all: readonly Protocol[],
    private readonly options: PassPathOptions,
  ) {
    this.dialect = spoken[0] as Protocol;
    this.uploads = spoken.flatMap(({ vendor }) => vendor?.uploads ?? []);
    const both = this.uploads.flatMap(({ headers }) => headers);
    const up = [...spoken.flatMap(({ headers }) => headers), ...both];
    const trace = options.trace === true ? TRACE_HEADERS : [];
    this.up = new AllowList([...REQUEST_HEADERS, ...trace, ...PASSED_UP, ...up, ...(provider?.forward ?? [])]);
    this.down = new AllowList([
      ...RESPONSE_HEADERS,
      ...PASSED_DOWN,
      ...spoken.flatMap(({ answerHeaders = [] }) => answerHeaders),
      ...both,
    ]);
  }

  /** Finds out whether a path is one of these. `/v1/files/*` takes `/v1/files` too. */
  match(path: string): PassMatch | undefined {
    const { pattern, stem } = this;
    const fits = stem === undefined ? path === pattern : path === stem || path.startsWith(`${stem}/`);
    return fits ? { path: this, below: path.slice(this.prefix.length) } : undefined;
  }

  private get stem(): string | undefined {
    return this.pattern.endsWith("/*") ? this.pattern.slice(0, -2) : undefined;
  }

  /** A version stands for the provider's own: what follows it is the vendor's path. Any other prefix is only ours. */
  private get prefix(): string {
    const { pattern, stem } = this;
    // The vendor's own.
    if (this.besideVersion(pattern)) return "";
    return VERSION.exec(pattern)?.[0] ?? stem ?? pattern;
  }

  /** Whether a path is one that the vendor has beside its versions, as uploads are. */
  private besideVersion(path: string): boolean {
    return this.uploads.some((upload) => path.startsWith(`${upload.path}/`));
  }

  /** A vendor's path as the provider has it. */
  private pathOf(below: string): string {
    const { pathname } = (this.provider as Provider).url;
    return this.besideVersion(below)
      ? `${withoutVersion(pathname)}${below}`
      : pathBelow(pathname, this.dialect.segment, below);
  }

  /** Addresses that headers of an answer tell lead back through this path; one that cannot goes no further. */
  leadBack(headers: HeaderList, origin: string | undefined): void {
    for (const name of this.uploads.flatMap(({ addresses }) => addresses)) {
      const address = headers.get(name);
      if (address === undefined) continue;
      const ours = this.back(address, origin);
      if (ours === undefined) headers.delete(name);
      else headers.set(name, ours);
    }
  }

  /**
   * The address by which a client comes back, through this path, to what stands at one of the provider's.
   * @param origin scheme and host by which the client asked
   * @returns undefined for what does not stand below the provider's address
   */
  back(address: string, origin = ""): string | undefined {
    const { provider, prefix, dialect } = this;
    const theirs = URL.parse(address);
    if (!provider || theirs?.origin !== provider.url.origin) return undefined;
    const { pathname, search } = theirs;
    const below = [withoutVersion(provider.url.pathname), provider.url.pathname, dialect.segment]
      .filter((start) => pathname.startsWith(`${start}/`))
      .map((start) => pathname.slice(start.length));
    // What has its version twice leads there too, but looks wrong.
    if (VERSION.test(prefix)) below.reverse();
    const found = below.find((each) => this.pathOf(each) === pathname);
    return found === undefined ? undefined : `${origin}${prefix}${found}${search}`;
  }

  /**
   * The attempt that a request makes, if it may.
   * @throws GatewayError key_not_allowed, no_target
   */
  attempt(exchange: Exchange, below: string): Attempt {
    const { provider, dialect, options } = this;
    const { caller, method } = exchange;
    if (caller?.models && !options.open)
      throw new GatewayError("key_not_allowed", {
        message: `The key "${caller.name}" may use some models only, and requests on this path do not say which one they use.`,
        hint: "Use another key, or let the operator set open: true on the path.",
      });
    const level = options.open ? undefined : options.unmeasured?.(caller);
    if (level)
      throw new GatewayError("key_not_allowed", {
        message: `${whose(level)} may use so many tokens or so much money only, and what requests on this path use is not known before.`,
        hint: "Use another key, or let the operator set open: true on the path.",
      });
    if (!options.mint && this.all.some((protocol) => protocol.mints?.(method, plain(below))))
      throw new GatewayError("key_not_allowed", {
        message:
          "This call makes a key of the vendor's own, or begins a conversation, that works without this gateway.",
        hint: "Let the operator set mint: true on the path if that is wanted.",
      });
    if (!provider)
      throw new GatewayError("no_target", { message: "The provider of this path is switched off.", retry: false });
    const headers = exchange.headers.filter(this.requestHeaders(exchange.headers));
    dropInvalidTrace(headers);
    for (const [name, value] of dialect.defaults ?? []) if (!headers.has(name)) headers.append(name, value);
    // What passes is read beside (usage): unpacking it would cost more than the bytes saved between two data centres.
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
      caller: callerOf(exchange),
    });
    const query = exchange.query.toString();
    attempt.path = `${this.pathOf(below)}${query === "" ? "" : `?${query}`}`;
    return attempt;
  }

  /** What the request is about, and names. @throws GatewayError unsupported_encoding */
  objects(exchange: Exchange, below: string, objects: Objects, limit: number): PassingObjects {
    return new PassingObjects(objects, exchange, this.provider?.name ?? "", below, this.spoken, limit);
  }

  /**
   * Whether a path begins like one of the vendor's interface for models, of which the protocols tell: of what else there is, as
   * for managing an account, a refusal tells nothing of a credential that is for models.
   */
  knows(below: string): boolean {
    const [first = ""] = segments(below);
    return this.spoken.some(({ paths, vendor }) =>
      [...paths, ...(vendor?.collections ?? []), ...(vendor?.anybodys ?? [])].some(
        (path) => segments(path)[0] === first,
      ),
    );
  }

  /** Whether it takes what may show one key what another one made. */
  get open(): boolean {
    return this.options.open;
  }

  /** The headers of a response that come back to the client. */
  readonly responseHeaders = (received: HeaderList): HeaderList => {
    const named = connectionNames(received);
    return received.filter((name) => this.down.passes(name) && !named?.has(name));
  };

  private requestHeaders(sent: HeaderList): (name: string) => boolean {
    const named = connectionNames(sent);
    return (name) => this.up.passes(name) && !named?.has(name);
  }
}

/** A path as the vendor may read it, whatever escapes, capitals, white space and matrix parameters it is written with. */
function plain(path: string): string {
  return decodeURIComponent(path)
    .toLowerCase()
    .replaceAll(/;[^/]*|\s+/g, "")
    .replaceAll(/\/{2,}/g, "/")
    .replace(/(?<=.)\/$/, "");
}

/** A path without the version that it may end with, and without a slash at its end. */
const withoutVersion = (path: string): string =>
  path.replace(/\/[^/]*$/, (last) => (last === "/" || VERSION.test(last) ? "" : last));

/** The parts of a path, without a version in front. */
const segments = (path: string): string[] =>
  plain(path)
    .replace(VERSION, "")
    .split("/")
    .filter((part) => part !== "");

/** A path below an address that ends with a version segment, of which clients may bring their own. */
function pathBelow(pathname: string, segment: string, below: string): string {
  const version = VERSION.exec(below)?.[0];
  const bare = pathname === "/";
  if (version === undefined) return `${bare ? segment : pathname}${below}`;
  if (bare) return below;
  return `${pathname.endsWith(version) ? pathname.slice(0, -version.length) : pathname}${below}`;
}

/** The fields that concern this connection only because Connection names them (RFC 9110 §7.6.1). */
function connectionNames(headers: HeaderList): Set<string> | undefined {
  let named: Set<string> | undefined;
  for (const [name, value] of headers.entries()) {
    if (name !== "connection") continue;
    named ??= new Set();
    for (const token of value.split(",")) named.add(token.trim().toLowerCase());
  }
  return named;
}
