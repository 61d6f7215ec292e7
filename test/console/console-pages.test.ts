import { createServer } from "node:http";
import t from "tap";
import { ConsolePages } from "../../src/console/console-pages.ts";
import { PageFiles } from "../../src/console/page-files.ts";
import { listen } from "../support/listen.ts";

const pages = new ConsolePages(await PageFiles.shared());
const server = createServer(async (request, response) => {
  const known = async () => request.headers.authorization !== undefined;
  const { pathname, searchParams } = new URL(`http://console${request.url}`);
  if (!(await pages.serve({ request, response, path: pathname, query: searchParams }, known)))
    response.writeHead(404).end();
});
const base = `http://127.0.0.1:${await listen(t, server)}`;

t.test("every page of the console is one shell, which requests its data from the API", async (t) => {
  for (const path of ["/", "/requests", "/requests/01a2", "/money", "/providers", "/keys", "/config", "/audit"]) {
    const page = await fetch(base + path);
    t.equal(page.status, 200, path);
    t.match(await page.text(), /<title>Console<\/title>/);
    t.match(page.headers.get("content-security-policy"), /default-src 'none'/);
  }
});

t.test("a visitor with access to the API gets the figures together with the scripts, nobody else does", async (t) => {
  const linked = async (path: string, headers = {}) => {
    const link = (await fetch(base + path, { headers })).headers.get("link") ?? "";
    return link.split(", ").map((each) => /^<(.+)>; rel=preload; as=fetch; crossorigin=anonymous$/.exec(each)?.[1]);
  };
  const known = { authorization: "Bearer admin" };
  t.match(await linked("/money?since=30d&by=key", known), [
    ...["/api/session", "/api/spend?since=30d&by=key&series=5", "/api/spend?since=30d&by=key&back=1"],
    ...["/api/now", "/api/budgets", "/api/keys"],
  ]);
  t.same(await linked("/requests/01a2", known), ["/api/session", "/api/requests/01a2", "/api/keys"]);
  t.same(await linked("/requests?key=%3E%3C%22%0A,x", known), [
    "/api/session",
    "/api/requests?since=24h&key=%3E%3C%22%0A%2Cx&limit=100",
    "/api/keys",
  ]);
  t.same(
    await linked("/requests/a%3E,;'b", known),
    ["/api/session", "/api/keys"],
    "scripts that could end the session are not loaded",
  );
  t.same(
    await linked(`/requests?key=${"x".repeat(600)}`, known),
    ["/api/session", "/api/keys"],
    "no header is too large",
  );
  t.same(await linked("/requests?since=__proto__", known), [
    ...["/api/session", "/api/requests?since=24h&limit=100", "/api/keys"],
  ]);
  t.same(await linked("/money"), [undefined]);
});

t.test("its files are found by their version, and paths that are no pages are left to others", async (t) => {
  const [, file = ""] = /src="([^"]+console\/app\.js)"/.exec(await (await fetch(base)).text()) ?? [];
  t.equal((await fetch(base + file)).status, 200);
  for (const path of ["/api/now", "/livez", "/metrics", "/nothing", "/requests/a/b", "/pages/0/console/app.js"])
    t.equal((await fetch(base + path)).status, 404, path);
});

t.test("a browser gets a page for a path without one, which asks for nothing but the session", async (t) => {
  const headers = { accept: "text/html,*/*;q=0.8", authorization: "Bearer admin" };
  for (const path of ["/nothing", "/requests/a/b", "/requests/", "/money/", "/pages/0/console/app.js"]) {
    const page = await fetch(base + path, { headers });
    t.equal(page.status, 404, path);
    t.match(page.headers.get("content-type"), /^text\/html/, path);
    t.match(await page.text(), /src="[^"]+console\/app\.js"/, path);
    t.equal(page.headers.get("link"), "</api/session>; rel=preload; as=fetch; crossorigin=anonymous", path);
  }
});

t.test("a page lists every script that it needs, so that none is loaded late", async (t) => {
  for (const path of ["/", "/requests", "/requests/01a2", "/money", "/providers", "/keys", "/config", "/audit"]) {
    const html = await (await fetch(base + path)).text();
    const named = new Set([...html.matchAll(/(?:src|href)="([^"]+\.js)"/g)].map(([, file = ""]) => file));
    for (const file of named)
      for (const [, from = ""] of (await (await fetch(base + file)).text()).matchAll(
        /^(?:import|export|\}).* from "([^"]+)"/gm,
      ))
        t.ok(named.has(new URL(from, base + file).pathname), `${path}: ${file} needs ${from}`);
    const [app = ""] = [...named].filter((file) => file.endsWith("/console/app.js"));
    const source = await (await fetch(base + app)).text();
    const pages = [...source.matchAll(/import\("\.([^"]+)"\)/g)].map(([, file]) => `/console${file}`);
    const shown = pages.filter((file) => [...named].some((each) => each.endsWith(file)));
    t.equal(shown.length, 1, `${path} has the script of its own page, and no other: ${shown}`);
  }
});

t.test("a page says whether the API would respond, so that no request is in vain; each has its own ETag", async (t) => {
  const [signedOut, signedIn] = [await fetch(base), await fetch(base, { headers: { authorization: "Bearer token" } })];
  t.match(await signedOut.text(), /<html [^>]*data-visitor="unknown"/);
  t.match(await signedIn.text(), /<html [^>]*data-visitor="known"/);
  const kept = { "if-none-match": signedOut.headers.get("etag") ?? "" };
  t.equal((await fetch(base, { headers: kept })).status, 304);
  t.equal((await fetch(base, { headers: { ...kept, authorization: "Bearer token" } })).status, 200);
});
