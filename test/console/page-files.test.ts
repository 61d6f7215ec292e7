import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import t from "tap";
import { startGateway } from "../support/gateway.ts";

const PAGES = fileURLToPath(new URL("../../pages", import.meta.url));
const DEMO = `providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\n`;
const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };

t.test("a page refers to its files by a version, and these may be cached forever", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const page = await fetch(url, { headers: HTML });
  t.match(page.headers.get("content-type"), /^text\/html/);
  t.equal(page.headers.get("cache-control"), "no-cache");
  const files = [...(await page.text()).matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file = ""]) => file);
  t.ok(files.length > 5);
  for (const file of files) {
    t.match(file, /^\/pages\/[0-9a-f]{12}\//);
    const got = await fetch(url + file);
    t.equal(got.status, 200, file);
    t.match(got.headers.get("cache-control"), /max-age=31536000, immutable/);
    t.equal(got.headers.get("x-content-type-options"), "nosniff");
  }
  const gone = await fetch(url + (files[0] ?? "").replace(/[0-9a-f]{12}/, "0123456789ab"));
  t.equal(gone.status, 404, "another version's files do not exist");
});

t.test("an unchanged file is not sent again, and is compressed for clients that accept it", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const first = await fetch(url, { headers: HTML });
  const etag = first.headers.get("etag") ?? "";
  await first.text();
  const again = await fetch(url, { headers: { ...HTML, "if-none-match": etag } });
  t.equal(again.status, 304);
  t.equal(await again.text(), "");
  const plain = await fetch(`${url}/pages/models.json`, { headers: { "accept-encoding": "identity" } });
  t.equal(plain.headers.get("content-encoding"), null);
  const small = await fetch(`${url}/pages/models.json`, { headers: { "accept-encoding": "gzip" } });
  t.equal(small.headers.get("content-encoding"), "gzip");
  t.ok(Number(small.headers.get("content-length")) < Number(plain.headers.get("content-length")) / 3);
  t.same(await small.json(), await plain.json());
});

t.test("the first load of the marketplace is below 100 KB on the wire", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const seen = new Set<string>();
  let bytes = 0;
  const load = async (address: string): Promise<void> => {
    if (seen.has(address)) return;
    seen.add(address);
    const got = await fetch(address, { headers: { ...HTML, "accept-encoding": "gzip" } });
    t.equal(got.status, 200, address);
    bytes += Number(got.headers.get("content-length"));
    const text = await got.text();
    const found = [...text.matchAll(/(?:src|href)="(\/pages\/[^"]+)"|\bfrom\s*"(\.{1,2}\/[^"]+)"|^import "([^"]+)"/gm)];
    for (const [, absolute, relative, bare] of found)
      await load(new URL(absolute ?? relative ?? bare ?? "", address).href);
  };
  await load(`${url}/`);
  await load(`${url}/pages/models.json`);
  t.ok(seen.size > 10);
  t.ok(bytes < 100_000, `${bytes} bytes`);
});

t.test("the pages obey their content security policy: no inline script or style, no other host", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const policy = (await fetch(url, { headers: HTML })).headers.get("content-security-policy") ?? "";
  t.match(policy, /default-src 'none'/);
  t.notMatch(policy, /unsafe|https?:|\*/);
  for (const name of globSync("**/*.{html,js,css}", { cwd: PAGES })) {
    const text = readFileSync(join(PAGES, name), "utf8");
    if (name.endsWith(".html")) {
      t.notMatch(text, /<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)/, name);
      t.notMatch(text, /(?:src|href)="(?!\/pages\/\{\{version\}\}\/)/, name);
    }
    t.notMatch(text, /(?:import|from|url\()\s*["'(]?https?:/, name);
    t.notMatch(text, /\binnerHTML\b|dangerouslySetInnerHTML|\beval\(|new Function/, name);
  }
});

t.test("compressed bytes decompress to the file's own", async (t) => {
  const { url } = await startGateway(t, DEMO);
  const page = await (await fetch(url, { headers: HTML })).text();
  const [, file = ""] = /href="([^"]+style\.css)"/.exec(page) ?? [];
  const { get } = await import("node:http");
  const bytes = await new Promise<Buffer>((done, fail) => {
    get(url + file, { headers: { "accept-encoding": "gzip" } }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on("data", (piece: Buffer) => pieces.push(piece)).on("end", () => done(Buffer.concat(pieces)));
    }).on("error", fail);
  });
  t.equal(gunzipSync(bytes).toString(), readFileSync(join(PAGES, "style.css"), "utf8"));
});
