import { generateKeyPairSync } from "node:crypto";
import { createServer, type RequestListener } from "node:http";
import type { Test } from "tap";
import { listen } from "./listen.ts";

/** The users of a provider: claims besides `sub`. */
export type People = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

export const CLIENT = { id: "gateway", secret: "client-secret-0123456789" };

/** The claims that users have here. */
const CLAIMS = ["email", "email_verified", "preferred_username", "groups", "realm_access"];

/**
 * Starts a real identity provider with its own key, whose login accepts any password.
 * @param redirect the gateway's callback address
 * @param inToken whether the claims are in the ID token, or only at `userinfo`
 * @param beforeToken waited for before a code is exchanged for tokens
 */
export async function startIdentityProvider(
  t: Test,
  redirect: string,
  people: People,
  inToken = true,
  beforeToken = async () => {},
): Promise<{ issuer: string }> {
  const { warn, info } = console;
  // It warns that it is not for production.
  console.warn = console.info = () => {};
  const { Provider } = await import("oidc-provider");
  let answer: RequestListener = () => {};
  const server = createServer(async (request, response) => {
    if (request.url === "/token") await beforeToken();
    answer(request, response);
  });
  const issuer = `http://127.0.0.1:${await listen(t, server)}`;
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const provider = new Provider(issuer, {
    clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: [redirect] }],
    jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256", kid: "one" }] },
    cookies: { keys: ["a key of a test"] },
    claims: { openid: ["sub"], profile: CLAIMS },
    conformIdTokenClaims: !inToken,
    pkce: { required: () => true },
    findAccount: (_: unknown, id: string) =>
      people[id] && { accountId: id, claims: async () => ({ sub: id, ...people[id] }) },
  });
  answer = provider.callback();
  Object.assign(console, { warn, info });
  return { issuer };
}

/** Signs in like a browser: cookies are stored per host. */
export class Surfer {
  private readonly jars = new Map<string, Map<string, string>>();

  /** Requests an address without following redirects. */
  async ask(address: string, options: RequestInit = {}): Promise<Response> {
    const { host } = new URL(address);
    const jar = this.jars.get(host) ?? new Map<string, string>();
    this.jars.set(host, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(address, { ...options, redirect: "manual", headers: { ...options.headers, cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /Max-Age=0(?:;|$)/.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** Signs in at the identity provider, and returns the address that it redirects back to. */
  async signIn(start: string, who: string): Promise<string> {
    const back = `${new URL(start).origin}/api/session/callback`;
    let response = await this.ask(start);
    let here = start;
    for (let step = 0; step < 12; step++) {
      const location = response.headers.get("location");
      if (location !== null) {
        here = new URL(location, here).href;
        if (here.startsWith(back) || new URL(here).origin === new URL(start).origin) return here;
        response = await this.ask(here);
        continue;
      }
      const page = await response.text();
      const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
      if (action === undefined) throw new Error(`no form at ${here}: ${page.slice(0, 400)}`);
      const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1] ?? "login";
      here = new URL(action.replaceAll("&amp;", "&"), here).href;
      const body = new URLSearchParams(prompt === "login" ? { prompt, login: who, password: "any" } : { prompt });
      response = await this.ask(here, { method: "POST", body });
    }
    throw new Error("it leads nowhere");
  }
}
