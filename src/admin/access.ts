import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Config, OidcSettings } from "../config/types.ts";
import { LOOPBACK, peerAddress } from "../core/networks.ts";
import type { RevokedSessions } from "../store/revoked-sessions.ts";
import { OidcSignIn, type PendingSignIn } from "./oidc.ts";
import { Seal } from "./seal.ts";
import type { AdminUser, Role } from "./user.ts";
import type { WrongTokens } from "./wrong-tokens.ts";

/** The result of a sign-in at the identity provider. */
export type OidcResult = { readonly cookies: readonly string[] } & (
  | { readonly who: string; readonly role: Role; readonly to: string; readonly refused?: never }
  /** No sign-in was begun here, or it has expired. */
  | { readonly refused: "late" }
  /** None of the person's roles is known here. `detail` is for the log. */
  | { readonly refused: "no_role"; readonly who: string; readonly detail: string }
);

/** The way in which somebody signed in. */
type SignInKind = "token" | "viewer" | "oidc";

/** The sealed content of a session's cookie. */
interface Session {
  readonly id: string;
  readonly kind: SignInKind;
  readonly role: Role;
  readonly who: string;
  /** Unix milliseconds. */
  readonly until: number;
  /** Hash of the token or settings that the session depends on: it ends when they change. */
  readonly settingsHash: string;
}

/** Cookie names. Over https they get the `__Host-` prefix, which keeps other hosts from setting them. */
const SESSION = "gateway_admin";
const LOGIN = "gateway_login";
const HOST = "__Host-";

/** What sessions depend on besides gateway.yaml. */
interface SessionDependencies {
  /** Shared by all gateways of a store, so that each can open the others' sessions. */
  readonly secret: () => Promise<string | Buffer>;
  readonly revokedSessions: RevokedSessions;
  readonly wrongTokens: WrongTokens;
}

/** Authentication and authorization of the admin side. */
export class Access {
  private sealPromise: Promise<Seal> | undefined;
  private oidcSignIn: OidcSignIn | undefined;
  private oidcSettings: OidcSettings | undefined;
  private readonly signOutListeners = new Map<string, Set<() => void>>();

  /** @param settings the current ones of gateway.yaml */
  constructor(
    private readonly settings: () => Config["adminAccess"],
    private readonly dependencies: SessionDependencies,
  ) {}

  /** The ways to sign in; empty: no sign-in is needed. */
  get signInMethods(): ("oidc" | "token")[] {
    const { token, viewer, oidc } = this.settings();
    return [...(oidc ? (["oidc"] as const) : []), ...((token ?? viewer) ? (["token"] as const) : [])];
  }

  /** Reports whether a browser sends a change from a page of another origin. */
  isCrossOrigin({ headers }: IncomingMessage): boolean {
    const { origin, host } = headers;
    if (headers["sec-fetch-site"] === "cross-site") return true;
    // A proxy that does not pass Host on leaves the console's own address only in gateway.yaml.
    if (origin === undefined || origin === this.settings().oidc?.url.origin) return false;
    return URL.parse(origin)?.host !== host;
  }

  /**
   * Reports whether a page of another origin makes the browser send a request, without the user having followed a link. That page
   * cannot read the answer, but what it asks for may cost much, and where no sign-in is needed anybody is answered. Other ports of
   * this machine, and other hosts of the domain, are the same site to browsers.
   */
  isEmbedded({ headers }: IncomingMessage): boolean {
    const isForeign = ["cross-site", "same-site"].includes(headers["sec-fetch-site"] as string);
    return isForeign && headers["sec-fetch-dest"] !== "document";
  }

  /** Describes how to sign in with the admin role. */
  get adminSignInHint(): string {
    const { token, oidc } = this.settings();
    const ways = [
      ...(oidc ? ["as somebody whom roles: admin of admin: oidc in gateway.yaml names"] : []),
      ...(token !== undefined ? ["with the admin token"] : []),
    ];
    return ways.length > 0 ? `sign in ${ways.join(", or ")}` : "set admin: { token: $ADMIN_TOKEN } in gateway.yaml";
  }

  /**
   * Returns who sends a request; undefined: somebody without access.
   * @throws AdminError after too many wrong tokens, or the store's error where it cannot be read
   */
  async authenticate(request: IncomingMessage): Promise<AdminUser | undefined> {
    const peer = peerAddress(request.socket);
    // A Unix socket has no address; the permissions of its file decide who may connect.
    if (this.signInMethods.length === 0)
      return peer === "" || LOOPBACK.test(peer) ? { role: "admin", who: "local", address: peer } : undefined;
    const address = this.addressOf(request);
    const shown = bearerToken(request);
    if (shown === undefined) {
      const session = await this.session(request);
      return session && { role: session.role, who: session.who, address, session: session.id };
    }
    const role = this.dependencies.wrongTokens.check(request, this.roleOf(shown));
    return role && { role, who: role, address };
  }

  /** Returns the address of who sends a request; behind a proxy in `trust`, the one that it names. */
  addressOf(request: IncomingMessage): string {
    return this.dependencies.wrongTokens.addressOf(request);
  }

  /** Reports whether the sender of an accepted request still has access. @throws the store's error where it cannot be read */
  async isStillAllowed(request: IncomingMessage): Promise<boolean> {
    const shown = bearerToken(request);
    if (shown === undefined || this.signInMethods.length === 0) return (await this.authenticate(request)) !== undefined;
    return this.roleOf(shown) !== undefined;
  }

  /**
   * Opens a session with a token.
   * @returns the value of `set-cookie`; undefined: the token is wrong
   * @throws AdminError after too many wrong ones
   */
  async signIn(token: string, request: IncomingMessage): Promise<string | undefined> {
    const role = this.dependencies.wrongTokens.check(request, this.roleOf(token));
    const kind = role === "admin" ? "token" : "viewer";
    return (
      role && this.openSession({ kind, role, who: role, settingsHash: this.settingsHash(kind) as string }, request)
    );
  }

  /**
   * Begins a sign-in at the identity provider.
   * @param to the page to return to
   * @returns the address for the browser, and the value of `set-cookie`; undefined: OIDC is not configured
   * @throws the identity provider's error, or that it does not respond
   */
  async beginOidc(to: string, request: IncomingMessage): Promise<{ location: string; cookie: string } | undefined> {
    const signIn = this.oidc;
    if (!signIn) return undefined;
    const { location, login } = await signIn.begin(to);
    const sealed = (await this.seal()).seal(login, LOGIN);
    return { location: location.href, cookie: this.setCookieValue(LOGIN, sealed, request, login.until - Date.now()) };
  }

  /**
   * Completes a sign-in when the browser returns from the identity provider.
   * @param query of the callback
   * @returns the requested page, and values of `set-cookie`; or why access is refused
   * @throws an error about the callback or the identity provider
   */
  async finishOidc(query: string, request: IncomingMessage): Promise<OidcResult> {
    const signIn = this.oidc;
    const sealed = this.readCookie(LOGIN, request);
    const login = (sealed && (await this.seal()).unseal(sealed, LOGIN)) as PendingSignIn | undefined;
    const forgotten = this.setCookieValue(LOGIN, "", request, 0);
    if (!signIn || !login || login.until < Date.now()) return { refused: "late", cookies: [forgotten] };
    const { who, role, groups } = await signIn.finish(query, login);
    if (!role) return { refused: "no_role", who, detail: signIn.describeClaim(groups), cookies: [forgotten] };
    // Of the settings that have given the role: others may have been loaded meanwhile.
    const session = await this.openSession({ kind: "oidc", role, who, settingsHash: signIn.settingsHash }, request);
    return { who, role, to: login.to, cookies: [session, forgotten] };
  }

  /** Returns the value of `set-cookie` that deletes the cookie of a pending sign-in. */
  clearLoginCookie(request: IncomingMessage): string {
    return this.setCookieValue(LOGIN, "", request, 0);
  }

  /**
   * Ends the session of a request, at all gateways.
   * @returns the value of `set-cookie` that deletes the session's cookie
   * @throws the store's error where it cannot be written
   */
  async signOut(request: IncomingMessage): Promise<string> {
    const session = await this.session(request);
    if (session) {
      await this.dependencies.revokedSessions.add(session.id, session.until);
      for (const leave of this.signOutListeners.get(session.id) ?? []) leave();
    }
    return this.setCookieValue(SESSION, "", request, 0);
  }

  /** Calls `leave` when the user's session is ended here. @returns a function that unregisters it */
  onSignOut({ session }: AdminUser, leave: () => void): () => void {
    if (session === undefined) return () => {};
    const listeners = this.signOutListeners.get(session) ?? new Set();
    this.signOutListeners.set(session, listeners.add(leave));
    return () => {
      listeners.delete(leave);
      if (listeners.size === 0) this.signOutListeners.delete(session);
    };
  }

  /**
   * Reports whether the Host header names this server. Another name that resolves to this machine is refused (DNS rebinding).
   * @param listening the name that the admin side listens on
   */
  isAllowedHost(host: string | undefined, listening: string): boolean {
    if (host === undefined) return true;
    const name = host
      .replace(/:\d*$/, "")
      .replace(/^\[(.*)\]$/, "$1")
      .toLowerCase();
    if (isIP(name) !== 0 || name === "localhost" || name === listening.toLowerCase()) return true;
    const { hosts, oidc } = this.settings();
    return oidc?.url.hostname === name || hosts.some((each) => each.toLowerCase() === name);
  }

  private async openSession(who: Omit<Session, "id" | "until">, request: IncomingMessage): Promise<string> {
    const lasts = this.settings().session;
    const session: Session = { id: randomBytes(16).toString("base64url"), ...who, until: Date.now() + lasts };
    return this.setCookieValue(SESSION, (await this.seal()).seal(session, SESSION), request, lasts);
  }

  private async session(request: IncomingMessage): Promise<Session | undefined> {
    const sealed = this.readCookie(SESSION, request);
    if (sealed === undefined) return undefined;
    const session = (await this.seal()).unseal(sealed, SESSION) as Session | undefined;
    if (!session || session.until < Date.now() || session.settingsHash !== this.settingsHash(session.kind))
      return undefined;
    return (await this.dependencies.revokedSessions.has(session.id)) ? undefined : session;
  }

  /** Returns the hash that sessions of a kind depend on now; undefined: that way to sign in is no longer configured. */
  private settingsHash(kind: SignInKind): string | undefined {
    if (kind === "oidc") return this.oidc?.settingsHash;
    const token = this.settings()[kind];
    return token && hash("sha256", `${kind} ${token}`, "base64url");
  }

  private get oidc(): OidcSignIn | undefined {
    const { oidc } = this.settings();
    if (oidc !== this.oidcSettings) [this.oidcSignIn, this.oidcSettings] = [oidc && new OidcSignIn(oidc), oidc];
    return this.oidcSignIn;
  }

  private seal(): Promise<Seal> {
    this.sealPromise ??= this.dependencies.secret().then(
      (secret) => new Seal(secret),
      (thrown: unknown) => {
        this.sealPromise = undefined;
        throw thrown;
      },
    );
    return this.sealPromise;
  }

  /** Builds a value of `set-cookie`. SameSite is Lax, not Strict: the return from an identity provider starts on its site. */
  private setCookieValue(name: string, value: string, request: IncomingMessage, lasts: number): string {
    const isSecure = this.secure(request);
    const attributes = `HttpOnly; SameSite=Lax; Path=/${isSecure ? "; Secure" : ""}; Max-Age=${Math.floor(lasts / 1000)}`;
    return `${isSecure ? HOST : ""}${name}=${value}; ${attributes}`;
  }

  private readCookie(name: string, request: IncomingMessage): string | undefined {
    const full = `${this.secure(request) ? HOST : ""}${name}=`;
    const found = (request.headers.cookie ?? "").split(/; */).find((each) => each.startsWith(full));
    return found?.slice(full.length) || undefined;
  }

  /** Reports whether browsers use https to reach this server. */
  private secure({ headers }: IncomingMessage): boolean {
    return headers["x-forwarded-proto"] === "https" || this.settings().oidc?.url.protocol === "https:";
  }

  /** Returns the role of a token. */
  roleOf(shown: string): Role | undefined {
    const { token, viewer } = this.settings();
    const digest = hash("sha256", shown);
    if (matchesHash(digest, token)) return "admin";
    return matchesHash(digest, viewer) ? "viewer" : undefined;
  }
}

const bearerToken = ({ headers }: IncomingMessage): string | undefined =>
  /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];

const matchesHash = (digest: string, expected: string | undefined): boolean =>
  expected !== undefined && timingSafeEqual(Buffer.from(digest, "hex"), Buffer.from(expected, "hex"));
