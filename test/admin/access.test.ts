import { hash } from "node:crypto";
import { renameSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import t from "tap";
import { Access } from "../../src/admin/access.ts";
import { Admin } from "../../src/admin/admin.ts";
import { WrongTokens } from "../../src/admin/wrong-tokens.ts";
import type { RevokedSessions } from "../../src/store/revoked-sessions.ts";
import { MemoryLog } from "../support/gateway.ts";
import { startAdmin, TOKEN, VIEWER, WITH_TOKENS, YAML } from "./support.ts";

const metrics = async (wrongTokens: number) => ({ type: "text/plain", text: String(wrongTokens) });

const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });

t.test("without a token everybody on this machine may do everything, and the API says so", async (t) => {
  const { ask } = await startAdmin(t);
  t.match((await ask("GET", "/api/session")).body, { role: "admin", sign_in: { length: 0 }, timezone: "UTC" });
  t.equal((await ask("GET", "/api/now")).status, 200);
});

t.test("with a token nobody may do anything without it; a viewer changes nothing", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  const refused = await ask("GET", "/api/now");
  t.equal(refused.status, 401);
  t.equal(refused.headers["www-authenticate"], 'Bearer realm="model-gateway"');
  t.match((await ask("GET", "/api/session")).body, { role: null, sign_in: ["token"] });
  t.equal((await ask("GET", "/api/now", bearer("wrong-token-0123456789abcdef"))).status, 401);
  t.equal((await ask("GET", "/api/now", bearer(VIEWER))).status, 200);
  t.equal((await ask("POST", "/api/reload", bearer(VIEWER))).status, 403);
  t.equal((await ask("POST", "/api/reload", bearer(TOKEN))).status, 200);
  t.same((await ask("GET", "/livez")).status, 200);
});

t.test(
  "a session is a cookie that scripts cannot read and other sites cannot send, until the session ends",
  async (t) => {
    const { ask } = await startAdmin(t, WITH_TOKENS);
    const wrong = await ask("POST", "/api/session", { body: { token: "no-token-0123456789abcdef" } });
    t.equal(wrong.status, 401);
    const opened = await ask("POST", "/api/session", { body: { token: VIEWER } });
    t.match(opened.body, { role: "viewer" });
    const [line = ""] = opened.headers["set-cookie"] as string[];
    t.match(line, /^gateway_admin=[\w-]{100,}; HttpOnly; SameSite=Lax; Path=\/; Max-Age=43200$/);
    const cookie = line.split(";")[0] as string;
    t.equal((await ask("GET", "/api/now", { headers: { cookie } })).status, 200);
    t.equal((await ask("POST", "/api/reload", { headers: { cookie } })).status, 403);
    const ended = await ask("DELETE", "/api/session", { headers: { cookie } });
    t.match(ended.headers["set-cookie"], [/^gateway_admin=; .*Max-Age=0$/]);
    t.equal((await ask("GET", "/api/now", { headers: { cookie } })).status, 401);
  },
);

t.test("on all addresses an IPv4 client is known by its own address", async (t) => {
  const { gateway, log } = await startAdmin(t, YAML);
  const admin = new Admin(gateway, { log });
  const { port } = new URL(await admin.listen({ host: "::", port: 0 }));
  t.teardown(() => admin.close());
  const off = await fetch(`http://127.0.0.1:${port}/api/providers/demo/off`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: "{}",
  });
  t.equal(off.status, 200, await off.text());
  const { entries } = (await (await fetch(`http://127.0.0.1:${port}/api/audit`)).json()) as { entries: unknown[] };
  t.match(entries, [{ who: "local", address: /^127\.0\.0\.1$/ }]);
});

t.test("another token in gateway.yaml ends the sessions of the previous token at once", async (t) => {
  const yaml = WITH_TOKENS.replace("$ADMIN_TOKEN", "$file:./token");
  const { ask, gateway, folder } = await startAdmin(t, yaml, {}, { token: "file-token-0123456789abcdef" });
  const cookieOf = async (token: string) => {
    const { headers } = await ask("POST", "/api/session", { body: { token } });
    return (headers["set-cookie"] as string[] | undefined)?.[0]?.split(";")[0] ?? "";
  };
  const cookie = await cookieOf("file-token-0123456789abcdef");
  const look = () => ask("GET", "/api/now", { headers: { cookie } });
  t.equal((await look()).status, 200);
  writeFileSync(join(folder, "token"), "other-token-0123456789abcdef");
  await gateway.reload();
  t.equal((await look()).status, 401);
});

t.test(
  "the audit trail has the client's address behind a proxy in trust, and otherwise the connection's",
  async (t) => {
    for (const [trust, expected] of [
      ["[127.0.0.1]", "203.0.113.9"],
      ["[]", "127.0.0.1"],
    ] as const) {
      const { ask } = await startAdmin(t, `${WITH_TOKENS}trust: ${trust}\n`);
      const headers = { ...bearer(TOKEN).headers, "x-forwarded-for": "8.8.8.8, 203.0.113.9" };
      t.equal((await ask("POST", "/api/keys", { headers, body: { name: "ci" } })).status, 201);
      const { body } = await ask("GET", "/api/audit?limit=1", bearer(TOKEN));
      t.match(body, { entries: [{ action: "keys.create", address: expected }] });
    }
  },
);

t.test("guessing tokens is refused for a while, with the right token nevertheless", async (t) => {
  const { ask, log } = await startAdmin(t, `${WITH_TOKENS}trust: [127.0.0.1]\n`, { metrics });
  const guess = (way: "bearer" | "session", token: string, address: string) => {
    const headers = { "x-forwarded-for": `8.8.8.8, ${address}` };
    if (way === "session") return ask("POST", "/api/session", { headers, body: { token } });
    return ask("GET", "/api/now", { headers: { ...headers, ...bearer(token).headers } });
  };
  for (const [way, address] of [
    ["bearer", "10.0.0.1"],
    ["session", "10.0.0.2"],
  ] as const) {
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++)
      statuses.push((await guess(way, `guess-${way}-${i}-0123456789abcdef`, address)).status);
    t.same(statuses, [...Array(10).fill(401), 429, 429], way);
    for (const other of ["bearer", "session"] as const) {
      const refused = await guess(other, TOKEN, address);
      t.equal(refused.status, 429, `${way}, then ${other}`);
      t.match(refused.headers, { "retry-after": /^\d+$/ });
      t.equal((await guess(other, TOKEN, "10.0.0.3")).status, 200, "from elsewhere");
    }
    const lines = log.lines.filter(({ fields }) => fields["address"] === address && !("action" in fields));
    t.same(
      lines.map(({ message }) => message),
      ["a wrong token on the admin side", "too many wrong tokens on the admin side"],
    );
    t.notMatch(JSON.stringify(lines), "guess-");
  }
  const { body } = await ask("GET", "/metrics", bearer(TOKEN));
  t.equal(body, "24");
});

t.test(
  "from this machine, which may be a proxy, a right token opens a session after any number of wrong ones",
  async (t) => {
    const { ask } = await startAdmin(t, WITH_TOKENS);
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++)
      statuses.push((await ask("POST", "/api/session", { body: { token: `guess-${i}-0123456789abcdef` } })).status);
    t.equal(statuses[0], 401);
    t.equal(statuses.at(-1), 429);
    t.equal((await ask("POST", "/api/session", { body: { token: TOKEN } })).status, 200);
  },
);

t.test("several gateways with one store accept each other's sessions, and end them for each other", async (t) => {
  const ended = new Set<string>();
  const signedOut = { add: async (id: string) => void ended.add(id), has: async (id: string) => ended.has(id) };
  const settings = { token: hash("sha256", TOKEN), hosts: [], session: 60_000 };
  const gateway = (secret: string) =>
    new Access(() => settings, {
      secret: async () => secret,
      revokedSessions: signedOut as unknown as RevokedSessions,
      wrongTokens: new WrongTokens(new MemoryLog(), () => []),
    });
  const from = (cookie?: string) =>
    ({ headers: { cookie }, headersDistinct: {}, socket: {} }) as unknown as IncomingMessage;
  const [one, other, stranger] = [gateway("shared"), gateway("shared"), gateway("of its own")];
  const line = (await one.signIn(TOKEN, from())) ?? "";
  const cookie = line.split(";")[0];
  t.match(await other.authenticate(from(cookie)), { role: "admin", who: "admin" });
  t.equal(await stranger.authenticate(from(cookie)), undefined);
  let told = 0;
  const visitor = await one.authenticate(from(cookie));
  const stop = one.onSignOut(visitor as NonNullable<typeof visitor>, () => void told++);
  await one.signOut(from(cookie));
  t.equal(told, 1, "a read-only session is notified");
  stop();
  t.equal(await other.authenticate(from(cookie)), undefined);
});

t.test("behind https the cookie has the __Host- prefix, and no other cookie is read", async (t) => {
  const { ask } = await startAdmin(t, WITH_TOKENS);
  const headers = { "x-forwarded-proto": "https" };
  const opened = await ask("POST", "/api/session", { headers, body: { token: TOKEN } });
  const [line = ""] = opened.headers["set-cookie"] as string[];
  t.match(line, /^__Host-gateway_admin=[\w-]+; HttpOnly; SameSite=Lax; Path=\/; Secure; Max-Age=43200$/);
  const cookie = line.split(";")[0] as string;
  t.equal((await ask("GET", "/api/now", { headers: { ...headers, cookie } })).status, 200);
  const planted = cookie.slice("__Host-".length);
  t.equal((await ask("GET", "/api/now", { headers: { ...headers, cookie: planted } })).status, 401);
});

t.test(
  "a session lasts where the store's file was removed, so that the console can say it; no change is made",
  async (t) => {
    const { ask, folder } = await startAdmin(t, WITH_TOKENS);
    const opened = await ask("POST", "/api/session", { body: { token: TOKEN } });
    const [cookie = ""] = (opened.headers["set-cookie"] as string[])[0]?.split(";") ?? [];
    renameSync(join(folder, "gateway.db-wal"), join(folder, "away"));
    for (const path of ["/api/session", "/api/now", "/api/keys", "/api/audit", "/api/requests"])
      t.equal((await ask("GET", path, { headers: { cookie } })).status, 200, path);
    t.equal((await ask("POST", "/api/keys", { ...bearer(TOKEN), body: { name: "one" } })).status, 503);
  },
);
