// @ts-check
// Runs the TypeScript of the gateway, its plugins and its tests as written: one module hook around oxc-transform, with legacy
// decorators and decorator metadata. A .js file, because as .ts it would load Node's own type stripper first.
import * as crypto from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import * as nodeModule from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { threadId } from "node:worker_threads";

if (!("Temporal" in globalThis)) {
  console.error(
    `model-gateway needs Node.js 26 or newer; this is ${process.version} at ${process.execPath}.\n` +
      "npm ci installs a suitable one: start with `npm start`, or put node_modules/.bin first on PATH.",
  );
  process.exit(1);
}
await import("reflect-metadata");
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
// Inside node_modules, so that only those who can write packages can put code into it; if it is not writable, there is no cache.
const CACHE = join(ROOT, "node_modules/.cache");
nodeModule.enableCompileCache(join(CACHE, "compile"));
process.setSourceMapsEnabled(true);

// oxc's decorator helpers, as globals (helpers.mode External), so that no import lines are added to a module.
/** @type {any} */ (globalThis).babelHelpers ??= {
  decorate(/** @type {any[]} */ decorators, /** @type {any} */ target, /** @type {any[]} */ ...member) {
    const [key, given] = member;
    const onClass = member.length === 0;
    let result = onClass ? target : given === null ? Object.getOwnPropertyDescriptor(target, key) : given;
    for (const decorator of decorators.toReversed()) {
      const changed = onClass ? decorator(result) : decorator(target, key, result);
      result = changed || result;
    }
    if (!onClass && result) Object.defineProperty(target, key, result);
    return result;
  },
  decorateParam:
    (/** @type {number} */ index, /** @type {any} */ decorator) =>
    (/** @type {any} */ target, /** @type {any} */ key) =>
      decorator(target, key, index),
  decorateMetadata: (/** @type {any} */ key, /** @type {any} */ value) =>
    /** @type {any} */ (Reflect).metadata(key, value),
};

const HOST = import.meta.url;

/** Files of this package import each other by their names. Node's own resolution takes a tenth of the CPU of a start. */
const ROOT_URL = pathToFileURL(ROOT).href;
const PACKAGES = `${ROOT_URL}node_modules/`;
const OWN_FILE = /^\.\.?\/.*\.ts$/;
/** @param {string | undefined} url */
const isOwn = (url) => url?.startsWith(ROOT_URL) === true && !url.startsWith(PACKAGES);

/** Packages whose classes and registries the host and its plugins must share: a plugin's own copy would be unknown here. */
const SHARED = /^(?:model-gateway|tsyringe|reflect-metadata)(?:\/|$)/;

/** Folders whose compiled JavaScript is cached: compiling TypeScript takes a sixth of the CPU of a start. */
const OURS = /^(?:src|plugins|test|scripts)\//;
const require = nodeModule.createRequire(import.meta.url);
/** @param {string} text */
const hash = (text) => crypto.hash("sha1", text);
/** Changes with the compiler and its options. */
const COMPILER = hash(readFileSync(new URL(import.meta.url), "utf8") + require("oxc-transform/package.json").version);

nodeModule.registerHooks({
  resolve(specifier, context, next) {
    if (isOwn(context.parentURL)) {
      if (specifier.startsWith("node:")) return { url: specifier, format: "builtin", shortCircuit: true };
      const url = OWN_FILE.test(specifier) ? new URL(specifier, context.parentURL) : undefined;
      // For a file that does not exist Node's own error says who imports it.
      if (url && existsSync(url)) return { url: url.href, format: "module", shortCircuit: true };
    }
    if (SHARED.test(specifier)) return next(specifier, { ...context, parentURL: HOST });
    try {
      return next(specifier, context);
    } catch (error) {
      const bare = /^[^./#]/.test(specifier) && !specifier.includes(":");
      if (/** @type {any} */ (error).code !== "ERR_MODULE_NOT_FOUND" || !bare) throw error;
      // A package that the plugin's own folder lacks may be one of the host's.
      try {
        return next(specifier, { ...context, parentURL: HOST });
      } catch {
        throw error;
      }
    }
  },
  load(url, context, next) {
    const path = url.startsWith("file:") ? fileURLToPath(url.split(/[?#]/)[0] ?? url) : "";
    if (!/\.m?ts$/.test(path)) return next(url, context);
    const written = readFileSync(path, "utf8");
    const source =
      OURS.test(path.slice(ROOT.length)) && path.startsWith(ROOT)
        ? compileCached(path, written)
        : compileInline(path, written);
    return { format: "module", shortCircuit: true, source };
  },
});

/**
 * Returns a file as JavaScript, from the cache unless the file or the compiler has changed. A cache entry ends with hashes of its
 * source and of itself.
 * @param {string} path
 * @param {string} written
 */
function compileCached(path, written) {
  const file = join(CACHE, "javascript", hash(path));
  const source = hash(COMPILER + written);
  try {
    const text = readFileSync(file, "utf8");
    const [, code = "", stamp] = /^(.*)#([0-9a-f]{80})$/s.exec(text) ?? [];
    if (stamp === source + hash(code)) return text;
  } catch {
    // There is none yet.
  }
  const { code, map } = transpile(path, written);
  try {
    mkdirSync(dirname(file), { recursive: true });
    write(`${file}.map`, map);
    const told = `${code}\n//# sourceMappingURL=${pathToFileURL(`${file}.map`).pathname}`;
    const text = `${told}#${source}${hash(told)}`;
    write(file, text);
    return text;
  } catch {
    return withMap(code, map);
  }
}

/** Writes a file atomically, because another process may read it. @param {string} file @param {string} text */
function write(file, text) {
  const own = `${file}.${process.pid}.${threadId}`;
  try {
    writeFileSync(own, text);
    renameSync(own, file);
  } catch (error) {
    rmSync(own, { force: true });
    throw error;
  }
}

/** @param {string} path @param {string} written */
function compileInline(path, written) {
  const { code, map } = transpile(path, written);
  return withMap(code, map);
}

/** @param {string} code @param {string} map */
const withMap = (code, map) =>
  `${code}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(map).toString("base64")}`;

/** @param {string} path @param {string} written */
function transpile(path, written) {
  const result = require("oxc-transform").transformSync(path, written, {
    lang: "ts",
    sourceType: "module",
    sourcemap: true,
    target: "esnext",
    decorator: { legacy: true, emitDecoratorMetadata: true },
    helpers: { mode: "External" },
  });
  if (result.errors.length > 0) {
    const error = new SyntaxError(
      result.errors
        .map((/** @type {{ codeframe?: string, message: string }} */ found) => found.codeframe ?? found.message)
        .join("\n")
        .trim(),
    );
    error.stack = `SyntaxError in ${path}\n${error.message}`;
    throw error;
  }
  // Without the sources: Node would keep a copy of each, 10 MiB in all, and can read the file.
  const map = { ...result.map, sources: [pathToFileURL(path).href], sourcesContent: undefined };
  return { code: result.code, map: JSON.stringify(map) };
}
