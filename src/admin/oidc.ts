import { hash } from "node:crypto";
import type * as client from "openid-client";
import { atPath } from "../config/tree.ts";
import type { OidcSettings } from "../config/types.ts";
import { optionalPackage } from "../store/optional-package.ts";
import { asText } from "../wire/values.ts";
import type { Role } from "./user.ts";

/** What is remembered during a sign-in at the identity provider. */
export interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  /** Of PKCE (RFC 7636). */
  readonly verifier: string;
  /** The requested page. */
  readonly to: string;
  /** Unix milliseconds. */
  readonly until: number;
}

/** A person that the identity provider has authenticated. */
interface OidcUser {
  readonly who: string;
  /** Undefined: none of the roles here. */
  readonly role: Role | undefined;
  /** Values of the claim that decides; undefined: the provider sent no such claim. */
  readonly groups: readonly string[] | undefined;
}

/** The redirect URI's path. */
export const CALLBACK_PATH = "/api/session/callback";

/** Milliseconds for the sign-in there. */
const SIGN_IN_TIMEOUT = 10 * 60_000;
/** Timeout in seconds of each request to the identity provider. */
const TIMEOUT = 10;
/** Maximum groups in a line of the log. */
const LOGGED_GROUPS = 20;
/** Tolerated clock difference in seconds. */
const CLOCK_TOLERANCE = 30;

type Claims = Readonly<Record<string, unknown>>;

/** Loads the OpenID Connect package. @throws FileError that says what to install */
export const openidClient = (): Promise<typeof client> =>
  optionalPackage<typeof client>("openid-client", () => import("openid-client"), "admin: oidc");

/** Sign-in at an identity provider: OpenID Connect's authorization code flow, with PKCE, state and nonce. */
export class OidcSignIn {
  /** Hash of the settings that a session depends on: it ends when they change. */
  readonly settingsHash: string;
  private discovered: Promise<client.Configuration> | undefined;

  constructor(private readonly settings: OidcSettings) {
    const { issuer, client_id: id, roles, name } = settings;
    this.settingsHash = hash("sha256", JSON.stringify([issuer.href, id, roles, name]), "base64url");
  }

  /**
   * Begins a sign-in.
   * @param to the page to return to
   * @returns the address for the browser, and the data that the callback needs
   * @throws the identity provider's error, or that it does not respond
   */
  async begin(to: string): Promise<{ location: URL; login: PendingSignIn }> {
    const { buildAuthorizationUrl, calculatePKCECodeChallenge, randomNonce, randomPKCECodeVerifier, randomState } =
      await openidClient();
    const [state, nonce, verifier] = [randomState(), randomNonce(), randomPKCECodeVerifier()];
    const location = buildAuthorizationUrl(await this.provider(), {
      redirect_uri: new URL(CALLBACK_PATH, this.settings.url).href,
      scope: this.settings.scope,
      ...{ state, nonce, code_challenge: await calculatePKCECodeChallenge(verifier), code_challenge_method: "S256" },
    });
    return { location, login: { state, nonce, verifier, to, until: Date.now() + SIGN_IN_TIMEOUT } };
  }

  /**
   * Completes a sign-in.
   * @param query of the callback
   * @throws where any part of the response is invalid
   */
  async finish(query: string, { state, nonce, verifier }: PendingSignIn): Promise<OidcUser> {
    const { authorizationCodeGrant, fetchUserInfo } = await openidClient();
    const provider = await this.provider();
    const came = new URL(CALLBACK_PATH, this.settings.url);
    came.search = query;
    const tokens = await authorizationCodeGrant(provider, came, {
      ...{ expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true },
    });
    const claims = tokens.claims() as client.IDToken;
    const asked =
      claimAt(claims, this.settings.roles.claim) === undefined && provider.serverMetadata().userinfo_endpoint;
    // Many identity providers put groups into userinfo only.
    const more = asked ? await fetchUserInfo(provider, tokens.access_token, claims.sub) : {};
    return this.userOf({ ...more, ...claims });
  }

  /** Says what the provider sent of the claim that decides on roles. @param groups its values; undefined: it was not sent */
  describeClaim(groups: readonly string[] | undefined): string {
    const { claim } = this.settings.roles;
    return groups
      ? `The claim ${claim} has ${groups.length > 0 ? groups.slice(0, LOGGED_GROUPS).join(", ") : "no value"}: see roles of admin: oidc in gateway.yaml.`
      : `The identity provider sent no claim ${claim}: let it add that to the ID token or userinfo, or name another in roles.`;
  }

  private userOf(claims: Claims): OidcUser {
    const { name, roles } = this.settings;
    const claimed = claimAt(claims, roles.claim);
    const groups = (Array.isArray(claimed) ? claimed : [claimed]).flatMap((value) => asText(value) ?? []);
    const has = (wanted: readonly string[]) => wanted.some((value) => value === "*" || groups.includes(value));
    const email = claims["email_verified"] === false ? undefined : claims["email"];
    const named = name === undefined ? [email, claims["preferred_username"]] : [claimAt(claims, name)];
    const who = [...named, claims["sub"]].map(asText).find((each) => each !== undefined && each !== "") as string;
    // A prefix, so that no name from the provider equals that of a token's holder.
    return {
      who: `oidc:${who}`,
      role: has(roles.admin) ? "admin" : has(roles.viewer) ? "viewer" : undefined,
      groups: claimed === undefined ? undefined : groups,
    };
  }

  /** Returns the provider's metadata; queried again after a failure. */
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
    // The settings accept http:// for this machine only.
    const execute = issuer.protocol === "http:" ? [allowInsecureRequests] : [];
    const metadata = (await discovery(issuer, id, undefined, None(), { execute, timeout: TIMEOUT })).serverMetadata();
    // client_secret_basic is the default (OpenID Connect Discovery 1.0, section 3).
    const { token_endpoint_auth_methods_supported: ways = ["client_secret_basic"] } = metadata;
    const shown = ways.includes("client_secret_basic") ? ClientSecretBasic : ClientSecretPost;
    const found = new Configuration(
      metadata,
      id,
      { [clockTolerance]: CLOCK_TOLERANCE },
      secret === undefined ? None() : shown(secret),
    );
    for (const each of execute) each(found);
    found.timeout = TIMEOUT;
    // Verifies the signature of the ID token too, though it comes directly from the provider.
    rest.enableNonRepudiationChecks(found);
    return found;
  }
}

/** Returns a claim by its name, or by a dotted path. */
function claimAt(claims: Claims, path: string): unknown {
  return Object.hasOwn(claims, path) ? claims[path] : atPath(claims, ...path.split("."));
}
