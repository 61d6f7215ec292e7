import t from "tap";
import { replaceSecrets } from "../../src/core/replace-secrets.ts";

t.test("the longest secret is replaced first, and a short value is none", async (t) => {
  const secrets = new Map([
    ["secret", "$A"],
    ["secret-long", "$B"],
    ["eu", "$C"],
  ]);
  t.equal(replaceSecrets("secret-long, secret, eu", secrets), "$B, $A, eu");
});
