import { createHash } from "node:crypto";
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { constants, gzip } from "node:zlib";
import { transitiveImports } from "./imports.ts";

/** The folder with the files for browsers. */
const PAGES = fileURLToPath(new URL("../../pages", import.meta.url));

/** Files of packages, by the name under which pages import them. */
const PACKAGES: Readonly<Record<string, string>> = {
  "lib/preact.js": "htm/preact/standalone",
  "lib/uplot.js": "uplot/dist/uPlot.esm.js",
  "lib/uplot.css": "uplot/dist/uPlot.min.css",
};

/** The path prefix of all files except pages; a version and a name follow. */
const FILES_PREFIX = "/pages/";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/** Allows no resources of other origins, no inline scripts or styles, and no framing. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "connect-src 'self'",
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join("; ");

/** Header lines of every file: name, value, … */
const PAGE_HEADERS: readonly string[] = [
  ...["content-security-policy", POLICY],
  ...["x-content-type-options", "nosniff"],
  ...["referrer-policy", "no-referrer"],
  ...["cross-origin-opener-policy", "same-origin"],
  ...["cross-origin-resource-policy", "same-origin"],
];

/** Matches the scripts that a page starts with. */
const SCRIPTS = /<script type="module"[^>]* src="\/pages\/\{\{version\}\}\/([^"]+)"/g;

const NOT_MODIFIED = 304;
const YEAR = 31_536_000;
/** Bytes from which on a file is worth compressing. */
const MIN_GZIP_BYTES = 512;

const gzipAsync = promisify(gzip);

/** A file as it is sent to browsers. */
export class PageFile {
  private readonly etag: string;
  private gzipped: Promise<Buffer> | undefined;

  /** @param immutable whether its URL always has this content */
  constructor(
    readonly body: Buffer,
    private readonly type: string,
    private readonly immutable = false,
  ) {
    this.etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
  }

  /**
   * Responds to a request for the file. Never throws.
   * @param more header lines: name, value, …
   */
  async send(
    { rawHeaders }: IncomingMessage,
    response: ServerResponse,
    { status = 200, more = [] }: { status?: number; more?: readonly string[] } = {},
  ): Promise<void> {
    const requestHeader = (name: string) =>
      rawHeaders[rawHeaders.findIndex((each, n) => n % 2 === 0 && each.toLowerCase() === name) + 1];
    // Appended, because there may be other values.
    response.appendHeader("vary", "accept, accept-encoding");
    const lines = [...PAGE_HEADERS, "etag", this.etag, ...more];
    lines.push("cache-control", this.immutable ? `public, max-age=${YEAR}, immutable` : "no-cache");
    if (requestHeader("if-none-match") === this.etag && status === 200) {
      response.writeHead(NOT_MODIFIED, lines).end();
      return;
    }
    const gzips = this.body.length >= MIN_GZIP_BYTES && /\bgzip\b/.test(requestHeader("accept-encoding") ?? "");
    if (gzips) lines.push("content-encoding", "gzip");
    this.gzipped ??= gzips ? gzipAsync(this.body, { level: constants.Z_BEST_COMPRESSION }) : undefined;
    const body = gzips ? await (this.gzipped as Promise<Buffer>) : this.body;
    lines.push("content-type", this.type, "content-length", String(body.length));
    response.writeHead(status, lines).end(body);
  }
}

/** The files for browsers, read once: pages, scripts and styles without a build step, and those of packages. */
export class PageFiles {
  /** Built pages by shell, script and visitor. */
  private readonly pages = new Map<string, PageFile>();

  private constructor(
    /** A hash over all files. Scripts import each other by relative URLs, so a change of one moves all of them. */
    readonly version: string,
    private readonly files: ReadonlyMap<string, PageFile>,
    private readonly shells: ReadonlyMap<string, string>,
  ) {}

  /**
   * Returns the files of this package, which a process reads once.
   * @throws the system's error for a file
   */
  static shared(): Promise<PageFiles> {
    PageFiles.own ??= PageFiles.load();
    return PageFiles.own;
  }

  private static own: Promise<PageFiles> | undefined;

  /** @throws the system's error for a file */
  private static async load(): Promise<PageFiles> {
    // A glob would load Node's parser of patterns, which takes more than reading all of them.
    const own = readdirSync(PAGES, { recursive: true, encoding: "utf8" })
      .filter((name) => extname(name) in TYPES)
      .map((name) => [name.replaceAll("\\", "/"), join(PAGES, name)]);
    const others = Object.entries(PACKAGES).map(([name, from]) => [name, fileURLToPath(import.meta.resolve(from))]);
    const names = [...own, ...others].sort(([a = ""], [b = ""]) => (a < b ? -1 : 1)) as [string, string][];
    const read = await Promise.all(names.map(async ([name, place]) => [name, await readFile(place)] as const));
    const hash = createHash("sha256");
    for (const [name, body] of read) hash.update(`${name}\0`).update(body);
    const version = hash.digest("hex").slice(0, 12);
    const isShell = (name: string) => extname(name) === ".html";
    const shells = read.flatMap(([name, body]) => (isShell(name) ? [[name, body.toString()] as const] : []));
    const files = read.flatMap(([name, body]) =>
      isShell(name) ? [] : [[name, new PageFile(body, TYPES[extname(name)] as string, true)] as const],
    );
    return new PageFiles(version, new Map(files), new Map(shells));
  }

  /**
   * Returns a page that preloads all scripts it needs, so that the browser fetches them in parallel.
   * @param name of its shell
   * @param script that renders the page, besides those in the shell; undefined: these suffice
   * @param visitor inserted where the shell has a placeholder for it
   * @throws Error where there is none
   */
  page(name: string, script: string | undefined, visitor: "known" | "unknown" = "unknown"): PageFile {
    const id = `${name} ${script ?? ""} ${visitor}`;
    const page = this.pages.get(id) ?? this.buildPage(name, script, visitor);
    this.pages.set(id, page);
    return page;
  }

  private buildPage(name: string, script: string | undefined, visitor: string): PageFile {
    const shell = this.shells.get(`${name}.html`);
    if (shell === undefined) throw new Error(`There is no page ${name}.`);
    const first = [...shell.matchAll(SCRIPTS)].map(([, each = ""]) => each);
    const own = script === undefined ? [] : [script];
    const needed = transitiveImports([...first, ...own], (each) => this.scriptText(each));
    const links = [...own, ...needed].map((each) => `<link rel="modulepreload" href="/pages/{{version}}/${each}" />`);
    const text = shell
      .replace("<!-- modules -->", links.join("\n    "))
      .replace("{{visitor}}", visitor)
      .replaceAll("{{version}}", this.version);
    return new PageFile(Buffer.from(text), TYPES[".html"] as string);
  }

  private scriptText(name: string): string {
    const found = this.files.get(name);
    if (!found) throw new Error(`There is no script ${name}.`);
    return found.body.toString();
  }

  /** Returns the script or style at a path; undefined: there is none. */
  find(path: string): PageFile | undefined {
    if (!path.startsWith(FILES_PREFIX)) return undefined;
    const [version = "", ...name] = path.slice(FILES_PREFIX.length).split("/");
    return version === this.version ? this.files.get(name.join("/")) : undefined;
  }
}
