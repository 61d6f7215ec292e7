import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import type { Config } from "../config/types.ts";

/** What somebody may do: look, or change things too. */
export type Role = "viewer" | "admin";

/** Who asks. */
export interface Visitor {
  readonly role: Role;
  /** For the audit trail; `local` where nobody signs in. */
  readonly who: string;
  readonly address: string;
}

interface Session {
  readonly role: Role;
  /** Unix milliseconds. */
  readonly until: number;
  /** SHA-256 of the token that it was opened with: it ends with that. */
  readonly token: string;
}

const COOKIE = "gateway_admin";
/** Milliseconds. */
const LASTS = 12 * 3_600_000;
const MINUTE = 60_000;
/** Wrong tokens in a minute, of all who try. */
const MOST_WRONG = 10;
/** Sessions at a time; beyond, the oldest end. */
const MOST = 1000;

const LOCAL = /^(?:::1|(?:::ffff:)?127\.\d+\.\d+\.\d+)$/;

/** Who may use the admin side, and for what. */
export class Access {
  private readonly sessions = new Map<string, Session>();
  private wrong = 0;
  private wrongSince = 0;

  /** @param settings as gateway.yaml has them now */
  constructor(private readonly settings: () => Config["adminAccess"]) {}

  /** Whether anybody has to sign in. */
  get asks(): boolean {
    const { token, viewer } = this.settings();
    return token !== undefined || viewer !== undefined;
  }

  /** Who sends a request; undefined: nobody who may. */
  visitor(request: IncomingMessage): Visitor | undefined {
    const address = request.socket.remoteAddress ?? "";
    // A socket in the file system has no address; who may open it is the file's business.
    if (!this.asks) return address === "" || LOCAL.test(address) ? { role: "admin", who: "local", address } : undefined;
    const shown = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
    const role = shown === undefined ? this.session(request)?.role : this.roleOf(shown);
    return role && { role, who: role, address };
  }

  /** Opens a session. @returns the cookie's line; undefined: the token is wrong */
  signIn(token: string, secure: boolean): string | undefined {
    const role = this.roleOf(token);
    if (!role) {
      this.wrong++;
      return undefined;
    }
    const cookie = randomBytes(32).toString("base64url");
    const [oldest] = this.sessions.keys();
    if (this.sessions.size >= MOST && oldest !== undefined) this.sessions.delete(oldest);
    const session = { role, until: Date.now() + LASTS, token: hash("sha256", token) };
    this.sessions.set(hash("sha256", cookie), session);
    return `${cookieLine(cookie, secure)}; Max-Age=${LASTS / 1000}`;
  }

  /** Whether there were too many wrong tokens of late. A right one opens a session all the same. */
  get tired(): boolean {
    const now = Date.now();
    if (now - this.wrongSince > MINUTE) [this.wrong, this.wrongSince] = [0, now];
    return this.wrong > MOST_WRONG;
  }

  /** Ends the session of a request. @returns the line that takes the cookie away */
  signOut(request: IncomingMessage): string {
    const cookie = cookieOf(request);
    if (cookie !== undefined) this.sessions.delete(hash("sha256", cookie));
    return `${cookieLine("", false)}; Max-Age=0`;
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
    return this.settings().hosts.some((each) => each.toLowerCase() === name);
  }

  private session(request: IncomingMessage): Session | undefined {
    const cookie = cookieOf(request);
    if (cookie === undefined) return undefined;
    const id = hash("sha256", cookie);
    const session = this.sessions.get(id);
    const { token, viewer } = this.settings();
    const current = session?.role === "admin" ? token : viewer;
    if (session && session.until > Date.now() && session.token === current) return session;
    this.sessions.delete(id);
    return undefined;
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

const cookieLine = (value: string, secure: boolean): string =>
  `${COOKIE}=${value}; HttpOnly; SameSite=Strict; Path=/${secure ? "; Secure" : ""}`;

const cookieOf = ({ headers: { cookie = "" } }: IncomingMessage): string | undefined =>
  new RegExp(`(?:^|; *)${COOKIE}=([\\w-]{43})(?:;|$)`).exec(cookie)?.[1];
