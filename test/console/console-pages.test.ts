import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { ConsolePages } from "../../src/console/console-pages.ts";
import { PageFiles } from "../../src/console/page-files.ts";

const pages = new ConsolePages(await PageFiles.load());
const server = createServer((request, response) => {
  if (!pages.serve(request, response, request.url ?? "")) response.writeHead(404).end();
});
await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
t.teardown(() => server.close());
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

t.test("every page of the console is one shell, which asks the API for what it shows", async (t) => {
  for (const path of ["/", "/requests", "/requests/01a2", "/money", "/providers", "/keys", "/config", "/audit"]) {
    const page = await fetch(base + path);
    t.equal(page.status, 200, path);
    t.match(await page.text(), /<title>Console<\/title>/);
    t.match(page.headers.get("content-security-policy"), /default-src 'none'/);
  }
});

t.test("its files are found by their version, and what is no page is for others", async (t) => {
  const [, file = ""] = /src="([^"]+console\/app\.js)"/.exec(await (await fetch(base)).text()) ?? [];
  t.equal((await fetch(base + file)).status, 200);
  for (const path of ["/api/now", "/livez", "/metrics", "/nothing", "/requests/a/b", "/pages/0/console/app.js"])
    t.equal((await fetch(base + path)).status, 404, path);
});
