import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { requestAdmin } from "../../src/cli/admin-client.ts";
import { CLIENT, type People, Surfer, startIdentityProvider } from "../support/identity-provider.ts";
import { startAdmin, TOKEN, YAML } from "./support.ts";

const PEOPLE: People = {
  alice: {
    email: "alice@example.com",
    email_verified: true,
    groups: ["ops", "staff"],
    realm_access: { roles: ["boss"] },
  },
  bob: { preferred_username: "bob", email: "alice@example.com", email_verified: false, groups: ["staff"] },
  eve: { groups: ["guests"] },
};
const ROLES = "roles: { admin: [ops], viewer: [staff] }";

/** A gateway whose console people of an identity provider use. */
async function start(
  t: Test,
  {
    roles = ROLES,
    inToken = true,
    more = "",
    beforeToken,
  }: { roles?: string; inToken?: boolean; more?: string; beforeToken?: () => Promise<void> } = {},
) {
  const running = await startAdmin(t, YAML, {}, { secret: CLIENT.secret });
  const { base, folder, gateway } = running;
  const { issuer } = await startIdentityProvider(t, `${base}/api/session/callback`, PEOPLE, inToken, beforeToken);
  const oidc = `{ issuer: "${issuer}", client_id: ${CLIENT.id}, client_secret: $file:./secret, url: "${base}", ${roles} }`;
  const write = async (text: string) => {
    writeFileSync(join(folder, "gateway.yaml"), `${YAML}${text}`);
    await gateway.reload();
  };
  await write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc}${more} }\n`);
  const enter = async (who: string, to = "/money?by=key") => {
    const surfer = new Surfer();
    const back = await surfer.signIn(`${base}/api/session/oidc?to=${encodeURIComponent(to)}`, who);
    const arrival = await surfer.ask(back);
    const session = await (await surfer.ask(`${base}/api/session`)).json();
    return { surfer, back, session, status: arrival.status, to: arrival.headers.get("location") };
  };
  return { ...running, issuer, oidc, write, enter };
}

t.test("users of an identity provider sign in with the role of their groups, and return to their page", async (t) => {
  const { base, enter, ask } = await start(t);
  t.match((await ask("GET", "/api/session")).body, { role: null, sign_in: ["oidc"] });
  t.equal((await ask("GET", "/api/now")).status, 401);
  const alice = await enter("alice");
  t.match(alice, { status: 302, to: "/money?by=key", session: { role: "admin", who: "oidc:alice@example.com" } });
  const change = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  t.equal((await alice.surfer.ask(`${base}/api/reload`, change)).status, 200);
  const bob = await enter("bob");
  t.match(bob.session, { role: "viewer", who: "oidc:bob" }, "an unverified email is not used as the name");
  t.equal((await bob.surfer.ask(`${base}/api/now`)).status, 200);
  const refused = await bob.surfer.ask(`${base}/api/reload`, change);
  t.equal(refused.status, 403);
  t.match(await refused.text(), /: sign in as somebody whom roles: admin of admin: oidc in gateway\.yaml names\./);
  const { hostname: host, port } = new URL(base);
  for (const token of [undefined, "any"])
    await t.rejects(requestAdmin({ host, port: Number(port) }, token, "/api/now"), {
      message: /knows no token, .*add token: to admin: in gateway\.yaml, and reload it with kill -HUP$/,
    });
  const eve = await enter("eve");
  t.match(eve, { to: "/?sign_in=no_role", session: { role: null } });
});

t.test("the log says which groups a user without a role has, or that the provider sends none", async (t) => {
  const { enter, log } = await start(t);
  await enter("eve");
  const lost = await start(t, { roles: "roles: { claim: realm_access.roles, admin: [boss] }" });
  await lost.enter("bob");
  const refusal = (lines: typeof log.lines) => lines.find(({ message }) => message === "the sign-in failed")?.fields;
  t.match(refusal(log.lines), {
    why: "no_role",
    detail: "The claim groups has guests: see roles of admin: oidc in gateway.yaml.",
  });
  t.match(refusal(lost.log.lines), {
    why: "no_role",
    detail: /^The identity provider sent no claim realm_access\.roles: let it add that to the ID token or userinfo/,
  });
});

t.test("the audit trail names the user; another site changes nothing with the user's cookie", async (t) => {
  const { base, enter, gateway } = await start(t);
  const { surfer } = await enter("alice");
  const headers = { "content-type": "application/json", origin: "https://evil.example" };
  t.equal((await surfer.ask(`${base}/api/keys`, { method: "POST", headers, body: '{"name":"x"}' })).status, 403);
  const own = { "content-type": "application/json", origin: base };
  t.equal((await surfer.ask(`${base}/api/keys`, { method: "POST", headers: own, body: '{"name":"x"}' })).status, 201);
  const entries = await gateway.stores.audit.list(10);
  t.match(
    entries.map(({ who, action }) => [who, action]),
    [
      ["oidc:alice@example.com", "keys.create"],
      ["oidc:alice@example.com", "session.open"],
    ],
  );
});

t.test("a session ends on sign-out, and its cookie is invalid afterwards", async (t) => {
  const { base, enter } = await start(t);
  const { surfer } = await enter("alice");
  const kept = structuredClone(
    (surfer as unknown as { jars: Map<string, Map<string, string>> }).jars.get(new URL(base).host),
  );
  const opens = async (cookie: string) => (await fetch(`${base}/api/now`, { headers: { cookie } })).status;
  const stolen = `gateway_admin=${kept?.get("gateway_admin")}`;
  t.equal(await opens(stolen), 200);
  t.equal((await surfer.ask(`${base}/api/session`, { method: "DELETE" })).status, 204);
  t.equal((await surfer.ask(`${base}/api/now`)).status, 401);
  t.equal(await opens(stolen), 401);
});

t.test("a session ends after its lifetime, and when the settings that it depends on change", async (t) => {
  const short = await start(t, { more: ", session: 1s" });
  const one = await short.enter("alice");
  t.match(one.session, { role: "admin" });
  await new Promise((later) => setTimeout(later, 1100));
  t.match(await (await one.surfer.ask(`${short.base}/api/session`)).json(), { role: null });
  const { base, enter, write, oidc } = await start(t);
  const { surfer, session } = await enter("alice");
  t.match(session, { role: "admin" });
  await write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc.replace("[ops]", "[nobody]")} }\n`);
  t.match(await (await surfer.ask(`${base}/api/session`)).json(), { role: null });
});

t.test("settings that change during a sign-in end its session at once", async (t) => {
  for (const becomes of ["admin: [nobody]", "none"]) {
    const { enter, write, oidc } = await start(t, {
      beforeToken: () =>
        write(
          becomes === "none"
            ? "admin: { listen: 127.0.0.1:0, token: a-token-0123456789abcdef }\n"
            : `admin: { listen: 127.0.0.1:0, oidc: ${oidc.replace("admin: [ops]", becomes)} }\n`,
        ),
    });
    t.match(await enter("alice"), { to: "/money?by=key", session: { role: null } }, becomes);
  }
});

t.test(
  "a callback must match its request: a code without its state, from another browser or used twice is refused",
  async (t) => {
    const { base, enter } = await start(t);
    const first = new Surfer();
    const back = await first.signIn(`${base}/api/session/oidc`, "alice");
    const other = await new Surfer().ask(back);
    t.equal(other.headers.get("location"), "/?sign_in=late", "another browser began it");
    const forged = new URL(back);
    forged.searchParams.set("state", "forged");
    t.equal((await first.ask(forged.href)).headers.get("location"), "/?sign_in=failed");
    t.equal((await first.ask(back)).headers.get("location"), "/?sign_in=late", "one attempt for each redirect");
    const used = await enter("alice");
    t.equal((await used.surfer.ask(used.back)).headers.get("location"), "/?sign_in=late");
    const wrong = new Surfer();
    await wrong.signIn(`${base}/api/session/oidc`, "alice");
    const invented = `${base}/api/session/callback?code=invented&state=x`;
    t.equal((await wrong.ask(invented)).headers.get("location"), "/?sign_in=failed");
  },
);

t.test("groups may come from userinfo only, or from a nested claim; everybody may be a viewer", async (t) => {
  const behind = await start(t, { inToken: false });
  t.match((await behind.enter("alice")).session, { role: "admin" });
  const deep = await start(t, { roles: 'roles: { claim: realm_access.roles, admin: [boss], viewer: ["*"] }' });
  t.match((await deep.enter("alice")).session, { role: "admin" });
  t.match((await deep.enter("eve")).session, { role: "viewer", who: "oidc:eve" });
});

t.test("sign-in never redirects to another site", async (t) => {
  const { enter } = await start(t);
  for (const to of ["//evil.example/x", "https://evil.example", "/\\evil.example", "javascript:alert(1)"])
    t.equal((await enter("alice", to)).to, "/", to);
});

t.test("an identity provider that is unreachable is reported on the page, and retried the next time", async (t) => {
  const { write, oidc, issuer, ask } = await start(t);
  await write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc.replace(issuer, "http://127.0.0.1:9")} }\n`);
  const away = await ask("GET", "/api/session/oidc");
  t.equal(away.headers["location"], "/?sign_in=away");
  await write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc} }\n`);
  t.match((await ask("GET", "/api/session/oidc")).headers["location"], /^http.*code_challenge_method=S256/);
});

t.test("behind a proxy that does not pass Host on, the console's own address is known from gateway.yaml", async (t) => {
  const { write, oidc, base, ask } = await start(t);
  const console = "https://console.example.com";
  const token = ", token: $ADMIN_TOKEN";
  await write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc.replace(`url: "${base}"`, `url: "${console}"`)}${token} }\n`);
  const create = (origin: string) =>
    ask("POST", "/api/keys", { headers: { authorization: `Bearer ${TOKEN}`, origin }, body: { name: "new" } });
  t.equal((await create(console)).status, 201);
  for (const other of ["https://console.example.com:8443", "http://console.example.com", "https://example.com", "null"])
    t.match(await create(other), { status: 403, body: { error: { message: /proxy_set_header Host/ } } }, other);
});

t.test("the log names why a sign-in failed, as the provider said it, without a stack", async (t) => {
  const { base, folder, write, oidc, issuer, enter, log } = await start(t);
  const cause = () => String(log.lines.findLast(({ fields }) => fields["cause"])?.fields["cause"]);
  const begin = (change: string) => write(`admin: { listen: 127.0.0.1:0, oidc: ${oidc.replace(issuer, change)} }\n`);
  const away = () => new Surfer().ask(`${base}/api/session/oidc`);
  await begin("http://127.0.0.1:9");
  await away();
  t.match(cause(), /^fetch failed: .*(?:ECONNREFUSED|bad port)/);
  await begin(issuer.replace("127.0.0.1", "localhost"));
  await away();
  t.match(cause(), `issuer: its issuer is ${issuer}, not ${issuer.replace("127.0.0.1", "localhost")}`);
  await begin(`${issuer}/realms/other`);
  await away();
  t.match(cause(), `404 from ${issuer}/realms/other/.well-known/openid-configuration`);
  writeFileSync(join(folder, "secret"), "another-secret-of-twenty-characters");
  await begin(issuer);
  t.equal((await enter("alice")).to, "/?sign_in=failed");
  t.match(cause(), /: invalid_client: client authentication failed$/);
  for (const { fields } of log.lines) t.notMatch(String(fields["cause"]), /node_modules/);
});

t.test("without an identity provider there is no such sign-in", async (t) => {
  const { ask } = await startAdmin(t);
  t.equal((await ask("GET", "/api/session/oidc")).status, 404);
  t.equal((await ask("GET", "/api/session/callback?code=x")).headers["location"], "/?sign_in=late");
});
