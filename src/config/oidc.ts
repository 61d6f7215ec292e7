import { LOOPBACK } from "../core/networks.ts";
import type { ConfigPath, Report } from "./problems.ts";
import { OidcSchema } from "./schema/admin.ts";
import { atPath, type YamlValue } from "./tree.ts";
import type { OidcSettings } from "./types.ts";

/** Reads texts of the file, with references resolved and errors reported. */
interface OidcTexts {
  text(...path: string[]): string | undefined;
  secret(path: string[]): string | undefined;
  report: Report;
}

const OIDC_PATH = ["admin", "oidc"];

/** Returns the OpenID Connect settings; undefined: there are none, or an error in them was reported. */
export function readOidc(file: YamlValue, { text, secret, report }: OidcTexts): OidcSettings | undefined {
  const written = atPath(file, ...OIDC_PATH);
  if (written === undefined) return undefined;
  const [issuer, url] = [secureUrl("issuer", text, report), secureUrl("url", text, report)];
  const client = text(...OIDC_PATH, "client_id");
  const password = atPath(written, "client_secret") === undefined ? undefined : secret([...OIDC_PATH, "client_secret"]);
  const reportAt = (message: string, ...path: ConfigPath) => report({ path: [...OIDC_PATH, ...path], message });
  if (url && (url.pathname !== "/" || url.search !== ""))
    reportAt("the console is served at the root of its host: remove the path", "url");
  // Of another shape, which the schema reports, these are undefined.
  const scope = OidcSchema.shape.scope.safeParse(atPath(written, "scope")).data;
  const roles = OidcSchema.shape.roles.safeParse(atPath(written, "roles")).data;
  if (scope !== undefined && !scope.split(" ").includes("openid"))
    reportAt('openid must be among the scopes: write "openid profile email"', "scope");
  if (roles?.admin.length === 0 && roles.viewer.length === 0)
    reportAt(
      'nobody could sign in: name values of the claim, like roles: { claim: groups, admin: [ops], viewer: ["*"] }',
      "roles",
    );
  if (roles?.admin.includes("*")) reportAt('everybody could change everything: "*" is for viewer', "roles", "admin");
  if (!issuer || !url || client === undefined || scope === undefined || !roles) return undefined;
  const name = atPath(written, "name") as string | undefined;
  return {
    ...{ issuer, client_id: client, url, scope, roles },
    ...(password !== undefined && { client_secret: password }),
    ...(name !== undefined && { name }),
  };
}

/** Returns a URL with a secure connection. */
function secureUrl(name: "issuer" | "url", text: OidcTexts["text"], report: Report): URL | undefined {
  const written = text(...OIDC_PATH, name);
  if (written === undefined) return undefined;
  const found = URL.parse(written);
  const secure = found?.protocol === "https:" || (found?.protocol === "http:" && LOOPBACK.test(found.hostname));
  if (found && secure && found.username === "" && found.hash === "") return found;
  const message = `expected an address like https://${name === "issuer" ? "login" : "console"}.example.com; http:// only of this machine`;
  report({ path: [...OIDC_PATH, name], message });
  return undefined;
}
