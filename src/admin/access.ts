import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Config, Oidc } from "../config/types.ts";
import type { SignedOut } from "../store/signed-out.ts";
import { type Login, OidcSignIn } from "./oidc.ts";
import { Seal } from "./seal.ts";
import type { Role, Visitor } from "./visitor.ts";

/** How it ends that somebody comes back from the identity provider. */
export type OidcReturn = { readonly cookies: readonly string[] } & (
  | { readonly who: string; readonly role: Role; readonly to: string; readonly refused?: never }
  /** `late`: nobody here sent them there, or long ago. `no_role`: none of theirs is one of ours. */
  | { readonly refused: "late" | "no_role"; readonly who?: string }
);

/** How somebody signed in. */
type SignInKind = "token" | "viewer" | "oidc";

/** What a session's cookie holds, sealed. */
interface Session {
  readonly id: string;
  readonly kind: SignInKind;
  readonly role: Role;
  readonly who: string;
  /** Unix milliseconds. */
  readonly until: number;
  /** On what it rests: with another token, or other settings, it ends. */
  readonly rests: string;
}

/** Cookies, with a prefix that keeps other hosts from setting them where browsers reach this one by https. */
const SESSION = "gateway_admin";
const LOGIN = "gateway_login";
const HOST = "__Host-";
const MINUTE = 60_000;
/** Wrong tokens in a minute, of all who try. */
const MOST_WRONG = 10;

const LOCAL = /^(?:::1|(?:::ffff:)?127\.\d+\.\d+\.\d+)$/;

/** What sessions rest on, besides gateway.yaml. */
interface SessionGround {
  /** Shared by all gateways of a store: what one has sealed the others open. */
  readonly secret: () => Promise<string | Buffer>;
  readonly signedOut: SignedOut;
}

/** Who may use the admin side, and for what. */
export class Access {
  private wrong = 0;
  private wrongSince = 0;
  private sealing: Promise<Seal> | undefined;
  private signIns: OidcSignIn | undefined;
  private signInsOf: Oidc | undefined;
  private readonly leavers = new Map<string, Set<() => void>>();

  /** @param settings as gateway.yaml has them now */
  constructor(
    private readonly settings: () => Config["adminAccess"],
    private readonly ground: SessionGround,
  ) {}

  /** In which ways people sign in; none: nobody has to. */
  get ways(): ("oidc" | "token")[] {
    const { token, viewer, oidc } = this.settings();
    return [...(oidc ? (["oidc"] as const) : []), ...((token ?? viewer) ? (["token"] as const) : [])];
  }

  /** How to sign in as somebody who may do all, in words. */
  get forAdmins(): string {
    const { token, oidc } = this.settings();
    const ways = [
      ...(oidc ? ["as somebody whom roles: admin of admin: oidc in gateway.yaml names"] : []),
      ...(token !== undefined ? ["with the admin token"] : []),
    ];
    return ways.length > 0 ? `sign in ${ways.join(", or ")}` : "set admin: { token: $ADMIN_TOKEN } in gateway.yaml";
  }

  /** Who sends a request; undefined: nobody who may. @throws what the store says where it cannot be read */
  async visitor(request: IncomingMessage): Promise<Visitor | undefined> {
    const address = request.socket.remoteAddress ?? "";
    // A socket in the file system has no address; who may open it is the file's business.
    if (this.ways.length === 0)
      return address === "" || LOCAL.test(address) ? { role: "admin", who: "local", address } : undefined;
    const shown = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
    if (shown === undefined) {
      const session = await this.session(request);
      return session && { role: session.role, who: session.who, address, session: session.id };
    }
    const role = this.roleOf(shown);
    return role && { role, who: role, address };
  }

  /** Opens a session with a token. @returns the cookie's line; undefined: the token is wrong */
  async signIn(token: string, request: IncomingMessage): Promise<string | undefined> {
    const role = this.roleOf(token);
    if (role) return this.open({ kind: role === "admin" ? "token" : "viewer", role, who: role }, request);
    this.wrong++;
    return undefined;
  }

  /** Whether there were too many wrong tokens of late. A right one opens a session all the same. */
  get tired(): boolean {
    const now = Date.now();
    if (now - this.wrongSince > MINUTE) [this.wrong, this.wrongSince] = [0, now];
    return this.wrong > MOST_WRONG;
  }

  /**
   * Somebody goes to the identity provider.
   * @param to the page to come back to
   * @returns where the browser goes, and the line of a cookie; undefined: nobody signs in that way
   * @throws what the identity provider answers, or that it does not
   */
  async goOut(to: string, request: IncomingMessage): Promise<{ location: string; cookie: string } | undefined> {
    const signIn = this.oidc;
    if (!signIn) return undefined;
    const { location, login } = await signIn.begin(to);
    const sealed = (await this.seal()).close(login, LOGIN);
    return { location: location.href, cookie: this.line(LOGIN, sealed, request, login.until - Date.now()) };
  }

  /**
   * Somebody comes back from there.
   * @param query that came along
   * @returns the page that was asked for, and the lines of cookies; or why nobody is let in
   * @throws what is wrong with what came, or with the identity provider
   */
  async comeBack(query: string, request: IncomingMessage): Promise<OidcReturn> {
    const signIn = this.oidc;
    const sealed = this.cookieOf(LOGIN, request);
    const login = (sealed && (await this.seal()).open(sealed, LOGIN)) as Login | undefined;
    const forgotten = this.line(LOGIN, "", request, 0);
    if (!signIn || !login || login.until < Date.now()) return { refused: "late", cookies: [forgotten] };
    const { who, role } = await signIn.finish(query, login);
    if (!role) return { refused: "no_role", who, cookies: [forgotten] };
    return { who, role, to: login.to, cookies: [await this.open({ kind: "oidc", role, who }, request), forgotten] };
  }

  /** The line that takes away what somebody brought to come back with. */
  forget(request: IncomingMessage): string {
    return this.line(LOGIN, "", request, 0);
  }

  /**
   * Ends the session of a request, everywhere.
   * @returns the line that takes the cookie away
   * @throws what the store says where it cannot be written
   */
  async signOut(request: IncomingMessage): Promise<string> {
    const session = await this.session(request);
    if (session) {
      await this.ground.signedOut.add(session.id, session.until);
      for (const leave of this.leavers.get(session.id) ?? []) leave();
    }
    return this.line(SESSION, "", request, 0);
  }

  /** Calls `leave` when that session is ended here. @returns what stops that */
  whenOut({ session }: Visitor, leave: () => void): () => void {
    if (session === undefined) return () => {};
    const leavers = this.leavers.get(session) ?? new Set();
    this.leavers.set(session, leavers.add(leave));
    return () => {
      leavers.delete(leave);
      if (leavers.size === 0) this.leavers.delete(session);
    };
  }

  /**
   * Whether a request was meant for this host: a stranger's name that points at this machine is none of ours (DNS rebinding).
   * @param listening the name that the admin side listens on
   */
  expects(host: string | undefined, listening: string): boolean {
    if (host === undefined) return true;
    const name = host
      .replace(/:\d*$/, "")
      .replace(/^\[(.*)\]$/, "$1")
      .toLowerCase();
    if (isIP(name) !== 0 || name === "localhost" || name === listening.toLowerCase()) return true;
    const { hosts, oidc } = this.settings();
    return oidc?.url.hostname === name || hosts.some((each) => each.toLowerCase() === name);
  }

  private async open(who: Pick<Session, "kind" | "role" | "who">, request: IncomingMessage): Promise<string> {
    const lasts = this.settings().session;
    const id = randomBytes(16).toString("base64url");
    const session: Session = { id, ...who, until: Date.now() + lasts, rests: this.groundOf(who.kind) as string };
    return this.line(SESSION, (await this.seal()).close(session, SESSION), request, lasts);
  }

  private async session(request: IncomingMessage): Promise<Session | undefined> {
    const sealed = this.cookieOf(SESSION, request);
    if (sealed === undefined) return undefined;
    const session = (await this.seal()).open(sealed, SESSION) as Session | undefined;
    if (!session || session.until < Date.now() || session.rests !== this.groundOf(session.kind)) return undefined;
    return (await this.ground.signedOut.has(session.id)) ? undefined : session;
  }

  /** What sessions of that kind rest on now; undefined: nobody signs in that way any more. */
  private groundOf(kind: SignInKind): string | undefined {
    if (kind === "oidc") return this.oidc?.settingsHash;
    const token = this.settings()[kind];
    return token && hash("sha256", `${kind} ${token}`, "base64url");
  }

  private get oidc(): OidcSignIn | undefined {
    const { oidc } = this.settings();
    if (oidc !== this.signInsOf) [this.signIns, this.signInsOf] = [oidc && new OidcSignIn(oidc), oidc];
    return this.signIns;
  }

  private seal(): Promise<Seal> {
    this.sealing ??= this.ground.secret().then(
      (secret) => new Seal(secret),
      (thrown: unknown) => {
        this.sealing = undefined;
        throw thrown;
      },
    );
    return this.sealing;
  }

  /** A cookie's line. SameSite is Lax, not Strict: the way back from an identity provider begins on its site. */
  private line(name: string, value: string, request: IncomingMessage, lasts: number): string {
    const secure = this.secure(request);
    const attributes = `HttpOnly; SameSite=Lax; Path=/${secure ? "; Secure" : ""}; Max-Age=${Math.floor(lasts / 1000)}`;
    return `${secure ? HOST : ""}${name}=${value}; ${attributes}`;
  }

  private cookieOf(name: string, request: IncomingMessage): string | undefined {
    const full = `${this.secure(request) ? HOST : ""}${name}=`;
    const found = (request.headers.cookie ?? "").split(/; */).find((each) => each.startsWith(full));
    return found?.slice(full.length) || undefined;
  }

  /** Whether browsers reach this by https. */
  private secure({ headers }: IncomingMessage): boolean {
    return headers["x-forwarded-proto"] === "https" || this.settings().oidc?.url.protocol === "https:";
  }

  /** What a token allows. */
  roleOf(shown: string): Role | undefined {
    const { token, viewer } = this.settings();
    const digest = hash("sha256", shown);
    if (same(digest, token)) return "admin";
    return same(digest, viewer) ? "viewer" : undefined;
  }
}

/** Whether a browser sends a change from a page of another origin. */
export function isForeign({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers;
  if (headers["sec-fetch-site"] === "cross-site") return true;
  if (origin === undefined) return false;
  return URL.parse(origin)?.host !== host;
}

const same = (digest: string, expected: string | undefined): boolean =>
  expected !== undefined && timingSafeEqual(Buffer.from(digest, "hex"), Buffer.from(expected, "hex"));
