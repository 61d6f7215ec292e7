import t from "tap";
import { signInWarnings } from "../../src/cli/sign-in-warnings.ts";
import type { Config } from "../../src/config/types.ts";
import { optionalPackage } from "../../src/store/optional-package.ts";

const config = (oidc: object | undefined) =>
  ({ file: "gateway.yaml", text: "admin:\n  oidc: {}\n", adminAccess: { oidc } }) as unknown as Config;
// @ts-expect-error: there is no such package.
const missing = () => optionalPackage("openid-client", () => import("no-such-package"), "admin: oidc");

t.test("the package for signing in is required only if an identity provider is configured", async (t) => {
  t.same(await signInWarnings(config(undefined), missing), []);
  t.same(await signInWarnings(config({})), [], "the variable is set");
  t.match(await signInWarnings(config({}), missing), [
    {
      ...{ severity: "warning", line: 2, column: 3 },
      message: "admin: oidc needs the package openid-client, which is not installed: npm i openid-client@6.8.9",
    },
  ]);
});
