import type { Chain } from "../core/chain.ts";
import { GatewayError } from "../core/errors.ts";
import type { Operation, Protocol, SocketProtocol } from "../core/protocol.ts";
import type { PassMatch, PassPath } from "../upstream/pass-path.ts";
import type { HeaderList } from "../wire/headers.ts";
import type { Query } from "../wire/query.ts";

/** A path of gateway.yaml, compiled for routing. */
export interface Mount {
  /** Its last segment may be `*`. */
  pattern: string;
  chain: Chain;
  /** Absent on a path that a plugin serves. */
  protocol?: Protocol;
  /** The protocol's path that it represents, if the operator chose another. */
  as?: string;
  /** Set if its chain ends with a plugin that responds. */
  serve?: true;
  /** Refuses requests from which a translation would drop something. */
  strict?: boolean;
  /** Set on a passthrough path (`pass` in gateway.yaml), whose bodies are not parsed. */
  pass?: PassPath;
}

/** The route of a request. */
export interface RouteMatch {
  chain: Chain;
  protocol: Protocol;
  operation: Operation;
  pathModel?: string | undefined;
  /** The model that the path names in place of the body's, where the protocol has it in the body. */
  deployment?: string;
  /** The query with the names of the path that is served, where the request's has others. */
  query?: Query;
  strict?: boolean;
  pass?: PassMatch;
  /** The path in the form that is served, and a notice if that differs from the request's. */
  path: string;
  notice?: string;
}

const hasProtocol = ({ protocol }: Mount): boolean => protocol !== undefined;

/** The operation of a path that a plugin serves. */
const SERVE_OPERATION: Operation = {
  name: "serve",
  method: "GET",
  body: "json",
  streams: false,
  framing: "sse",
  generates: false,
  upstream: () => "/",
};

/** The operation of a passthrough path. */
const PASS_OPERATION: Operation = { ...SERVE_OPERATION, name: "pass", body: "none", generates: true };

/** The path of a client of a cloud's deployments, also below a version that its base address has. */
const DEPLOYED_PATH = /^(?<folder>(?:\/v\d[^/]*)?\/[\w-]+)(?:\/deployments\/(?<name>[^/]+))?(?<rest>\/.+)$/;

/** Finds the mount of a request, tolerating the usual mistakes in a base URL; never redirects. */
export class Paths {
  private readonly exact = new Map<string, Mount[]>();
  private readonly wildcards: Mount[] = [];
  /** Mounts with stored responses of a vendor below them. */
  private readonly storedMounts: readonly Mount[];
  private readonly versionSegments: readonly string[];
  /** The WebSocket words of all protocols that have them. */
  readonly socketProtocols: readonly SocketProtocol[];
  /** Longest first. */
  private readonly passMounts: readonly Mount[];
  private readonly commonProtocol: Protocol;

  private readonly removedPaths: ReadonlySet<string>;

  /** @param removedPaths default paths that the operator has removed: no passthrough path, or shorter one, serves them */
  constructor(
    readonly mounts: readonly Mount[],
    private readonly protocols: readonly Protocol[],
    removedPaths: readonly string[] = [],
  ) {
    this.removedPaths = new Set(removedPaths);
    this.socketProtocols = protocols.flatMap(({ socket }) => socket ?? []);
    this.passMounts = mounts
      .filter((mount) => mount.pass)
      .sort((a, b) => b.pattern.replace(/\*$/, "").length - a.pattern.replace(/\*$/, "").length);
    for (const mount of mounts) {
      if (mount.pass) continue;
      if (mount.pattern.endsWith("/*")) this.wildcards.push(mount);
      else this.exact.set(mount.pattern, [...(this.exact.get(mount.pattern) ?? []), mount]);
    }
    this.wildcards.sort((a, b) => b.pattern.length - a.pattern.length);
    this.storedMounts = mounts.filter(
      ({ protocol, pattern, as = pattern }) => protocol?.storedResponses && protocol.paths[0] === as,
    );
    const first = mounts
      .map((mount) => mount.pattern.split("/")[1] as string)
      .filter((segment) => /^v\d/.test(segment));
    this.versionSegments = [...new Set(first)];
    this.commonProtocol = protocols.find((protocol) => protocol.isDefault) ?? (protocols[0] as Protocol);
  }

  /**
   * Finds the route of a request.
   * @param raw the original path, without the query
   * @throws GatewayError `path_not_found`, `method_not_allowed`, or the protocol's own error
   */
  find(method: string, raw: string, query: Query, headers: HeaderList): RouteMatch {
    const direct = raw.includes("//") ? undefined : this.lookUp(method, raw, query, headers);
    if (direct) return direct;
    const candidates = this.candidates(raw);
    for (const path of candidates) {
      const found = this.lookUp(method, path, query, headers);
      if (found) return noted(found, raw);
    }
    // Passthrough comes last: a path that any other mount takes is not passed through.
    for (const path of candidates) {
      const found = this.findPass(path, path !== candidates[0], this.recognise("", headers, query));
      if (found) return noted(found, raw);
    }
    const below = this.belowFolder(candidates[0] as string);
    const found = below === undefined ? undefined : this.lookUp(method, below, query, headers);
    if (found) return noted(found, raw);
    const deployed = this.findDeployed(method, candidates, query, headers);
    if (deployed) return deployed;
    throw this.findSocket(raw, query)
      ? new GatewayError("websocket_only")
      : this.notFoundError(method, raw, candidates);
  }

  /**
   * Returns the route of a WebSocket; undefined: no path takes it.
   * @param raw the original path, without the query
   */
  findSocket(raw: string, query: Query): RouteMatch | undefined {
    const candidates = this.candidates(raw);
    for (const path of candidates) {
      const found = this.lookUpSocket(path, query);
      if (found) return found;
      if (this.mountsOf(path).some(({ protocol }) => protocol)) return undefined;
      const passed = this.findPass(path, path !== candidates[0]);
      if (passed) return passed;
    }
    const below = this.belowFolder(candidates[0] as string);
    const found = below === undefined ? undefined : this.lookUpSocket(below, query);
    return found ? noted(found, raw) : this.findDeployedSocket(candidates, query);
  }

  /** Returns the protocol whose clients send such a request; it decides the dialect of errors, and of plugins that serve. */
  dialect(path: string, headers: HeaderList, query?: Query): Protocol {
    return this.recognise(path, headers, query) ?? this.commonProtocol;
  }

  private recognise(path: string, headers: HeaderList, query: Query | undefined): Protocol | undefined {
    return this.protocols.find((each) => !each.isDefault && each.recognises(path, headers, query));
  }

  /** Returns every path that is served, in the order of gateway.yaml. */
  servedPaths(): string[] {
    return [...this.exact.keys(), ...[...this.wildcards, ...this.passMounts].map((mount) => mount.pattern)];
  }

  /** Returns the paths that a path may have been meant to be. */
  private candidates(raw: string): string[] {
    const clean = this.normalize(raw);
    return [clean, ...this.versionSegments.map((segment) => `/${segment}${clean}`)];
  }

  /** Removes doubled slashes, a trailing slash and all but the last version segment: `/v1/v1/x`, `/v1beta/v1/x`. */
  private normalize(raw: string): string {
    let path = raw.includes("//") ? raw.replaceAll(/\/{2,}/g, "/") : raw;
    if (path.length > 1 && path.endsWith("/")) path = path.slice(0, -1);
    for (;;) {
      const [, first, second] = path.split("/", 3);
      if (!first || !second || !this.versionSegments.includes(first) || !this.versionSegments.includes(second))
        return path;
      path = path.slice(first.length + 1);
    }
  }

  /**
   * Returns the part of a path from its version on, where one or two folders are before it; undefined: none is, or the operator has
   * paths in that folder: what they lack is not served with other chains than they have. Some vendors' SDKs add such a folder of
   * their vendor's to any base address: `/vendor/v1/x`, also to one that ends in `/v1`.
   */
  private belowFolder(path: string): string | undefined {
    const parts = path.split("/", 4);
    const version = parts.findLastIndex((each) => this.versionSegments.includes(each));
    if (version < 2) return undefined;
    const folders = parts.slice(0, version).join("/");
    const [first = ""] = /^(?:\/v\d[^/]*)?\/[\w-]+/.exec(folders) ?? [];
    return first === "" || this.isOwnFolder(first) ? undefined : this.normalize(path.slice(folders.length));
  }

  /**
   * Finds the route of a client of a cloud's deployments, whose query has `api-version`: its paths have a folder in place of the
   * version, and most of them the model's name, which counts before the body's: `/vendor/deployments/NAME/chat/completions`.
   */
  private findDeployed(
    method: string,
    candidates: readonly string[],
    query: Query,
    headers: HeaderList,
  ): RouteMatch | undefined {
    const { name, paths } = this.deployedPaths(candidates, query);
    for (const path of paths) {
      const found = this.lookUp(method, path, query, headers);
      if (found && found.pathModel === undefined)
        return name === undefined ? found : { ...found, deployment: unescapePath(name) };
    }
    return undefined;
  }

  /** Finds the route of such a client's WebSocket, which has the model's name in its query. */
  private findDeployedSocket(candidates: readonly string[], query: Query): RouteMatch | undefined {
    for (const path of this.deployedPaths(candidates, query).paths) {
      const parameter = this.lookUpSocket(path, query)?.protocol.socket?.modelParameter;
      if (parameter === undefined) continue;
      const renamed = query.renamed("deployment", parameter);
      const found = this.lookUpSocket(path, renamed);
      if (found) return { ...found, query: renamed };
    }
    return undefined;
  }

  /** Returns the name of a deployment in a path, if it has one, and the paths that may be meant. */
  private deployedPaths(candidates: readonly string[], query: Query): { name?: string | undefined; paths: string[] } {
    const [path = ""] = candidates;
    if (query.get("api-version") === null || candidates.some((each) => this.removedPaths.has(each)))
      return { paths: [] };
    const { folder, name, rest } = DEPLOYED_PATH.exec(path)?.groups ?? {};
    if (folder === undefined || this.isOwnFolder(folder)) return { paths: [] };
    return { name, paths: this.versionSegments.map((segment) => `/${segment}${rest}`) };
  }

  /** Reports whether the operator has paths in a folder, in whatever case it is written, besides default ones. */
  private isOwnFolder(folder: string): boolean {
    const beginning = `${folder}/`.toLowerCase();
    const own = this.mounts.filter(({ protocol, as }) => !protocol || as !== undefined);
    return own.some(({ pattern }) => pattern.toLowerCase().startsWith(beginning));
  }

  private lookUp(method: string, path: string, query: Query, headers: HeaderList): RouteMatch | undefined {
    const requestedMethod = method === "HEAD" ? "GET" : method;
    for (const { pattern, protocol, chain, serve, as = pattern, strict = false } of this.mountsOf(path)) {
      if (serve && requestedMethod === "GET")
        return { chain, protocol: this.dialect(path, headers, query), operation: SERVE_OPERATION, path };
      const rest = pattern.endsWith("*") ? path.slice(pattern.length - 1) : "";
      const located = requestedMethod === "POST" ? protocol?.locate(as, rest, query) : undefined;
      if (!protocol || !located) continue;
      const { operation, model } = located;
      return { chain, protocol, operation, path, strict, pathModel: model };
    }
    for (const { pattern, protocol, chain } of this.storedMounts) {
      if (!protocol || !path.startsWith(`${pattern}/`)) continue;
      const operation = protocol.storedResponses?.locate(method, path.slice(pattern.length + 1));
      if (operation) return { chain, protocol, operation, path };
    }
    return undefined;
  }

  private lookUpSocket(path: string, query: Query): RouteMatch | undefined {
    for (const { pattern, protocol, chain, as = pattern } of this.mountsOf(path)) {
      const rest = pattern.endsWith("*") ? path.slice(pattern.length - 1) : "";
      const located = protocol?.socket?.locate(as, rest, query);
      if (protocol && located) return { chain, protocol, operation: located.operation, path, pathModel: located.model };
    }
    return undefined;
  }

  /**
   * @param guessed a version was prefixed to the original path: a mount of a whole version (`/v1/*`) would then match every path
   * @param theirs the client's protocol, as its headers show it; undefined: errors are in the provider's
   */
  private findPass(path: string, guessed: boolean, theirs?: Protocol): RouteMatch | undefined {
    if (this.removedPaths.has(path)) return undefined;
    for (const { pass, chain, pattern } of this.passMounts) {
      if (guessed && pattern.split("/").length < 4) continue;
      const match = pass?.match(path);
      if (match) return { chain, protocol: theirs ?? match.path.dialect, operation: PASS_OPERATION, pass: match, path };
    }
    return undefined;
  }

  /** Returns the mounts of a path: exact ones, those ending in `*`, and a served path above it (`/v1/models/some/id`). */
  private mountsOf(path: string): Mount[] {
    const exact = this.exact.get(path);
    return exact?.some(hasProtocol) ? exact : [...(exact ?? []), ...this.openMountsOf(path)];
  }

  private openMountsOf(path: string): Mount[] {
    const open = this.wildcards.filter(
      (mount) => path.startsWith(mount.pattern.slice(0, -1)) && path.length >= mount.pattern.length,
    );
    const served = [...this.exact.values()]
      .flat()
      .filter((mount) => mount.serve && path.startsWith(`${mount.pattern}/`));
    return [...open, ...served];
  }

  private notFoundError(method: string, raw: string, candidates: readonly string[]): GatewayError {
    const allow = candidates.map((path) => this.methodsOf(path)).find((found) => found.length > 0);
    if (allow && !allow.includes(method))
      return new GatewayError("method_not_allowed", {
        message: `${raw} does not answer ${method}.`,
        hint: `Use ${allow.filter((each) => each !== "HEAD").join(" or ")}.`,
        allow,
      });
    return new GatewayError("path_not_found", {
      message: `${method} ${raw} is not served here.`,
      hint: `${this.pathHint(raw)}; GET / lists the paths.`,
    });
  }

  /** Returns advice: another base URL, or, where that is correct, what the operator can configure. */
  private pathHint(raw: string): string {
    const served = [...this.exact.keys()];
    const base = this.mistakenBase(raw, served);
    if (base !== undefined)
      return `The client's base address seems to end in ${base}: set it to this host ${this.baseUrlHint()}`;
    const longer = served.find((path) => path.startsWith(`${raw}/`));
    if (longer !== undefined && !this.versionSegments.includes(raw.slice(1))) return `Perhaps ${longer} is meant`;
    const [, segment = "", first = ""] = /^\/([^/]+)\/([^/]+)/.exec(raw) ?? [];
    // The version stands behind the first part there.
    const uploads = this.protocols.some(
      ({ vendorObjects }) => vendorObjects?.resumableUploads?.pathPrefix === `/${segment}`,
    );
    if (!uploads && (!this.versionSegments.includes(segment) || this.versionSegments.includes(first)))
      return `Set the client's base address to this host ${this.baseUrlHint()}`;
    return `A vendor's call besides can be passed on by whoever runs this gateway, with paths: { /${segment}/${first}/*: { pass: PROVIDER } }`;
  }

  /**
   * Returns the path of a base address that contains a served path or its beginning, to which the client has added a path:
   * `/v1/chat` of `/v1/chat/chat/completions`. Other paths may be a vendor's own, like `/v1/threads/ID/messages`.
   */
  private mistakenBase(raw: string, served: readonly string[]): string | undefined {
    const added = served
      .flatMap((path) => [path, ...this.versionSegments.map((segment) => path.replace(`/${segment}/`, "/"))])
      .filter((path) => raw.endsWith(path))
      .sort((a, b) => b.length - a.length)[0];
    const base = added && raw.slice(0, -added.length);
    return base && served.some((path) => path === base || path.startsWith(`${base}/`)) ? base : undefined;
  }

  /** Returns the methods of an exactly mounted path. */
  private methodsOf(path: string): string[] {
    const mounts = this.exact.get(path) ?? [];
    return [
      ...(mounts.some(({ serve }) => serve) ? ["GET", "HEAD"] : []),
      ...(mounts.some(({ protocol }) => protocol) ? ["POST"] : []),
    ];
  }

  private baseUrlHint(): string {
    return `with /${this.versionSegments[0] ?? ""} (most client libraries) or without it (clients that add it themselves)`;
  }
}

/** @throws GatewayError `bad_target` */
function unescapePath(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new GatewayError("bad_target", { message: "The path has a broken escape." });
  }
}

/** Adds a notice to a route if its path differs from the request's. */
const noted = (match: RouteMatch, raw: string): RouteMatch =>
  match.path === raw ? match : { ...match, notice: `${raw} read as ${match.path}; correct the base address` };
