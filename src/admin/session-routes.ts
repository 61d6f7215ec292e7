import type { IncomingMessage, ServerResponse } from "node:http";
import { z } from "zod";
import type { PathRequest } from "../console/console-pages.ts";
import type { Log } from "../core/log.ts";
import { GATEWAY_VERSION } from "../core/version.ts";
import type { Audit } from "../store/audit.ts";
import type { Access, OidcResult } from "./access.ts";
import { AdminError } from "./errors.ts";
import { readJsonBody, SECURITY_HEADERS, sendJson } from "./messages.ts";
import { CALLBACK_PATH } from "./oidc.ts";
import { formatSignInError } from "./sign-in-errors.ts";

const SESSION = "/api/session";
const OIDC_PATH = "/api/session/oidc";
/** The body of a sign-in. */
export const SignInSchema = z.object({ token: z.string() });

const METHODS = ["GET", "HEAD", "POST", "DELETE"];
const FOUND = 302;

/** Sign-in and sign-out for browsers. */
export class SessionRoutes {
  constructor(
    private readonly access: Access,
    private readonly audit: Audit,
    private readonly log: Log,
    /** The time zone of budgets' and sums' days. */
    private readonly timezone: () => string,
  ) {}

  /** @returns whether it has responded @throws AdminError */
  async serve({ request, response, path, query }: PathRequest): Promise<boolean> {
    if (path === SESSION) await this.session(request, response);
    else if (path === OIDC_PATH || path === CALLBACK_PATH) {
      if (request.method !== "GET")
        throw new AdminError("method_not_allowed", "Only GET is answered here.", { allow: ["GET"] });
      if (path === OIDC_PATH) await this.beginOidc(request, response, query.get("to") ?? "/");
      else await this.finishOidc(request, response, query.toString());
    } else return false;
    return true;
  }

  private async session(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { access } = this;
    const { method } = request;
    if (method === "DELETE") {
      const user = await access.authenticate(request);
      response.setHeader("set-cookie", await access.signOut(request));
      if (user?.session) await this.recordSession("session.close", user, {});
      return sendJson(response, 204, undefined);
    }
    let user = await access.authenticate(request);
    if (method === "POST") {
      const { token } = SignInSchema.safeParse(await readJsonBody(request)).data ?? {};
      const cookie = token === undefined ? undefined : await access.signIn(token, request);
      if (cookie === undefined) throw new AdminError("signed_out", "That is not the token.");
      response.setHeader("set-cookie", cookie);
      const role = access.roleOf(token as string);
      user = role && { role, who: role, address: access.addressOf(request) };
    } else if (method !== "GET" && method !== "HEAD")
      throw new AdminError("method_not_allowed", "Only GET, POST, DELETE is answered here.", { allow: METHODS });
    const { role = null, who } = user ?? {};
    const more = { ...(who !== undefined && { who }), ...(role !== null && { timezone: this.timezone() }) };
    sendJson(response, 200, { role, ...more, sign_in: access.signInMethods, version: GATEWAY_VERSION });
  }

  private async beginOidc(request: IncomingMessage, response: ServerResponse, to: string): Promise<void> {
    try {
      const found = await this.access.beginOidc(safeReturnPath(to), request);
      if (!found) throw new AdminError("not_found", "Nobody signs in that way: see admin: oidc in gateway.yaml.");
      redirect(response, found.location, [found.cookie]);
    } catch (thrown) {
      if (thrown instanceof AdminError) throw thrown;
      this.log.error({ cause: formatSignInError(thrown) }, "the identity provider cannot be asked");
      redirect(response, "/?sign_in=away", []);
    }
  }

  private async finishOidc(request: IncomingMessage, response: ServerResponse, query: string): Promise<void> {
    let result: OidcResult;
    try {
      result = await this.access.finishOidc(query, request);
    } catch (thrown) {
      this.log.warn(
        { cause: formatSignInError(thrown), address: this.access.addressOf(request) },
        "the sign-in failed",
      );
      return redirect(response, "/?sign_in=failed", [this.access.clearLoginCookie(request)]);
    }
    const { cookies } = result;
    const address = this.access.addressOf(request);
    if (result.refused !== undefined) {
      const { cookies: _, refused: why, ...more } = result;
      this.log.warn({ ...more, why, address }, "the sign-in failed");
      return redirect(response, `/?sign_in=${result.refused}`, cookies);
    }
    const { who, role, to } = result;
    await this.recordSession("session.open", { who, address }, { role });
    redirect(response, to, cookies);
  }

  private async recordSession(
    action: string,
    { who, address }: { who: string; address: string },
    detail: object,
  ): Promise<void> {
    await this.audit.add({ time: Date.now(), who, address, action, subject: who, detail: { ...detail } });
    this.log.info({ who, address, action }, "admin");
  }
}

/** Returns a path of this site, as an open redirect must not be possible. */
function safeReturnPath(to: string): string {
  const here = "http://here";
  const found = URL.parse(to, here);
  return found?.origin === here && to.startsWith("/") ? `${found.pathname}${found.search}`.replace(/^\/+/, "/") : "/";
}

function redirect(response: ServerResponse, location: string, cookies: readonly string[]): void {
  response
    .writeHead(FOUND, { ...SECURITY_HEADERS, location, ...(cookies.length > 0 && { "set-cookie": [...cookies] }) })
    .end();
}
