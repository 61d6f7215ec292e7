import { hash } from "node:crypto";
import type * as client from "openid-client";
import type { Oidc } from "../config/types.ts";
import { optionalPackage } from "../store/optional-package.ts";
import { asText } from "../wire/values.ts";
import type { Role } from "./visitor.ts";

/** What is remembered while somebody is away at the identity provider. */
export interface Login {
  readonly state: string;
  readonly nonce: string;
  /** Of PKCE (RFC 7636). */
  readonly verifier: string;
  /** The page that was asked for. */
  readonly to: string;
  /** Unix milliseconds. */
  readonly until: number;
}

/** Somebody whom the identity provider has named. */
interface Person {
  readonly who: string;
  /** Undefined: none of ours. */
  readonly role: Role | undefined;
}

/** Where the identity provider sends people back. */
export const CALLBACK = "/api/session/callback";

/** Milliseconds to sign in there. */
const PATIENCE = 10 * 60_000;
/** Seconds that the identity provider has for each answer. */
const TIMEOUT = 10;
/** Seconds by which clocks may differ. */
const SKEW = 30;

type Claims = Readonly<Record<string, unknown>>;

/** The package that speaks OpenID Connect. @throws FileError with what to install */
export const openidClient = (): Promise<typeof client> =>
  optionalPackage<typeof client>("openid-client", () => import("openid-client"), "admin: oidc");

/** Signing in at an identity provider: OpenID Connect's authorization code flow, with PKCE, state and nonce. */
export class OidcSignIn {
  /** Names the settings on which a session rests: with others it ends. */
  readonly settingsHash: string;
  private discovered: Promise<client.Configuration> | undefined;

  constructor(private readonly settings: Oidc) {
    const { issuer, client_id: id, roles, name } = settings;
    this.settingsHash = hash("sha256", JSON.stringify([issuer.href, id, roles, name]), "base64url");
  }

  /**
   * Somebody goes to sign in.
   * @param to the page to come back to
   * @returns where the browser goes, and what it brings back
   * @throws what the identity provider answers, or that it does not
   */
  async begin(to: string): Promise<{ location: URL; login: Login }> {
    const { buildAuthorizationUrl, calculatePKCECodeChallenge, randomNonce, randomPKCECodeVerifier, randomState } =
      await openidClient();
    const [state, nonce, verifier] = [randomState(), randomNonce(), randomPKCECodeVerifier()];
    const location = buildAuthorizationUrl(await this.provider(), {
      redirect_uri: new URL(CALLBACK, this.settings.url).href,
      scope: this.settings.scope,
      ...{ state, nonce, code_challenge: await calculatePKCECodeChallenge(verifier), code_challenge_method: "S256" },
    });
    return { location, login: { state, nonce, verifier, to, until: Date.now() + PATIENCE } };
  }

  /**
   * Somebody comes back.
   * @param query that the identity provider sent along
   * @throws where anything about it is not as it must be
   */
  async finish(query: string, { state, nonce, verifier }: Login): Promise<Person> {
    const { authorizationCodeGrant, fetchUserInfo } = await openidClient();
    const provider = await this.provider();
    const came = new URL(CALLBACK, this.settings.url);
    came.search = query;
    const tokens = await authorizationCodeGrant(provider, came, {
      ...{ expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true },
    });
    const claims = tokens.claims() as client.IDToken;
    const asked =
      claimAt(claims, this.settings.roles.claim) === undefined && provider.serverMetadata().userinfo_endpoint;
    // Many put groups there only.
    const more = asked ? await fetchUserInfo(provider, tokens.access_token, claims.sub) : {};
    return this.person({ ...more, ...claims });
  }

  private person(claims: Claims): Person {
    const { name, roles } = this.settings;
    const told = claimAt(claims, roles.claim);
    const values = (Array.isArray(told) ? told : [told]).flatMap((value) => asText(value) ?? []);
    const has = (wanted: readonly string[]) => wanted.some((value) => value === "*" || values.includes(value));
    const email = claims["email_verified"] === false ? undefined : claims["email"];
    const named = name === undefined ? [email, claims["preferred_username"]] : [claimAt(claims, name)];
    const who = [...named, claims["sub"]].map(asText).find((each) => each !== undefined && each !== "") as string;
    // So that nobody is taken for who shows a token, whatever the provider calls people.
    return { who: `oidc:${who}`, role: has(roles.admin) ? "admin" : has(roles.viewer) ? "viewer" : undefined };
  }

  /** What the provider says of itself; asked again after it could not be asked. */
  private provider(): Promise<client.Configuration> {
    this.discovered ??= this.discover().catch((thrown: unknown) => {
      this.discovered = undefined;
      throw thrown;
    });
    return this.discovered;
  }

  private async discover(): Promise<client.Configuration> {
    const {
      allowInsecureRequests,
      ClientSecretBasic,
      ClientSecretPost,
      clockTolerance,
      Configuration,
      discovery,
      None,
      ...rest
    } = await openidClient();
    const { issuer, client_id: id, client_secret: secret } = this.settings;
    // Settings take http:// of this machine only.
    const execute = issuer.protocol === "http:" ? [allowInsecureRequests] : [];
    const told = (await discovery(issuer, id, undefined, None(), { execute, timeout: TIMEOUT })).serverMetadata();
    // Where the provider does not say, it takes the first (OpenID Connect Discovery 1.0, section 3).
    const { token_endpoint_auth_methods_supported: ways = ["client_secret_basic"] } = told;
    const shown = ways.includes("client_secret_basic") ? ClientSecretBasic : ClientSecretPost;
    const found = new Configuration(
      told,
      id,
      { [clockTolerance]: SKEW },
      secret === undefined ? None() : shown(secret),
    );
    for (const each of execute) each(found);
    found.timeout = TIMEOUT;
    // The signature of the ID token is checked too, though it comes straight from the provider.
    rest.enableNonRepudiationChecks(found);
    return found;
  }
}

/** A claim by its name, or by the way to it. */
function claimAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let here: unknown = claims;
  for (const step of path.split(".")) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Claims)[step];
  }
  return here;
}
