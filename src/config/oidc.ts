import { LOOPBACK } from "../core/networks.ts";
import type { ConfigPath, Report } from "./problems.ts";
import { at, type Tree } from "./tree.ts";
import type { Oidc } from "./types.ts";

/** Reads texts of the file, with references resolved and errors reported. */
interface OidcTexts {
  text(...path: string[]): string | undefined;
  secret(path: string[]): string | undefined;
  report: Report;
}

const PLACE = ["admin", "oidc"];

/** Returns the OpenID Connect settings; undefined: there are none, or an error in them was reported. */
export function oidcOf(file: Tree, { text, secret, report }: OidcTexts): Oidc | undefined {
  const written = at(file, ...PLACE);
  if (written === undefined) return undefined;
  const [issuer, url] = [safe("issuer", text, report), safe("url", text, report)];
  const client = text(...PLACE, "client_id");
  const password = at(written, "client_secret") === undefined ? undefined : secret([...PLACE, "client_secret"]);
  const scope = (at(written, "scope") as string | undefined) ?? "openid profile email";
  const tell = (message: string, ...path: ConfigPath) => report({ path: [...PLACE, ...path], message });
  if (typeof scope === "string" && !scope.split(" ").includes("openid"))
    tell('openid must be among the scopes: write "openid profile email"', "scope");
  if (url && (url.pathname !== "/" || url.search !== ""))
    tell("the console is served at the root of its host: remove the path", "url");
  const list = (role: string): readonly string[] => {
    const values = at(written, "roles", role);
    return Array.isArray(values) ? values.map(String) : [];
  };
  const [admin, viewer] = [list("admin"), list("viewer")];
  // A value that is not a list is reported by the schema.
  const misshapen = ["admin", "viewer"].some((role) => !Array.isArray(at(written, "roles", role) ?? []));
  if (admin.length + viewer.length === 0 && !misshapen)
    tell(
      'nobody could sign in: name values of the claim, like roles: { claim: groups, admin: [ops], viewer: ["*"] }',
      "roles",
    );
  if (admin.includes("*")) tell('everybody could change everything: "*" is for viewer', "roles", "admin");
  if (!issuer || !url || client === undefined) return undefined;
  const claim = (at(written, "roles", "claim") as string | undefined) ?? "groups";
  const name = at(written, "name") as string | undefined;
  return {
    ...{ issuer, client_id: client, url, scope, roles: { claim, admin, viewer } },
    ...(password !== undefined && { client_secret: password }),
    ...(name !== undefined && { name }),
  };
}

/** Returns a URL with a secure connection. */
function safe(name: "issuer" | "url", text: OidcTexts["text"], report: Report): URL | undefined {
  const written = text(...PLACE, name);
  if (written === undefined) return undefined;
  const found = URL.parse(written);
  const secure = found?.protocol === "https:" || (found?.protocol === "http:" && LOOPBACK.test(found.hostname));
  if (found && secure && found.username === "" && found.hash === "") return found;
  const message = `expected an address like https://${name === "issuer" ? "login" : "console"}.example.com; http:// only of this machine`;
  report({ path: [...PLACE, name], message });
  return undefined;
}
