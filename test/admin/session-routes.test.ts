import t from "tap";
import { startAdmin, VIEWER, WITH_TOKENS } from "./support.ts";

t.test("who is signed in, and the ways to sign in, are returned to everybody", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  const unknown = (await ask("GET", "/api/session")).body;
  t.match(unknown, { role: null, sign_in: ["token"], version: String });
  t.notOk("timezone" in unknown, "the file is not shown before the sign-in");
  const { body, headers } = await ask("POST", "/api/session", { body: { token: VIEWER } });
  t.match(body, { role: "viewer", who: "viewer" });
  const cookie = (headers["set-cookie"] as string[])[0]?.split(";")[0] as string;
  t.match((await ask("GET", "/api/session", { headers: { cookie } })).body, { role: "viewer" });
});

t.test("a method that is not allowed is reported", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  t.equal((await ask("PATCH", "/api/session", { body: {} })).status, 405);
  t.equal((await ask("POST", "/api/session/oidc", { body: {} })).status, 405);
});
