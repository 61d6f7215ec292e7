import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { createRequire, registerHooks } from "node:module";
import { dirname, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { endInTime } from "../core/timeout.ts";

// Reloads a plugin's code when it has changed, and only then: a module can be imported again only under another URL, and can never
// be unloaded. The first version has the plain URL of its file, later ones a digest in the query. Files that a plugin imports by
// relative path belong to its code; packages and the gateway itself do not: their changes need a restart.

/** A file of a plugin's code. */
interface CodeFile {
  /** The files of that code which it imports. */
  readonly imports: Set<string>;
  /** URLs of loaded versions, by the digest of the file and of everything it imports. */
  readonly versions: Map<string, string>;
  /** URLs that were imported, successfully or not. */
  readonly importedUrls: Set<string>;
}

/** Modules of CommonJS by file, whatever the URL that they are imported by. */
const { cache: commonModules } = createRequire(import.meta.url);
const SOURCE = fileURLToPath(new URL("..", import.meta.url));
const files = new Map<string, CodeFile>();
/** The URLs that the current load has resolved: one version per file, however many modules import it. */
let loading: Map<string, string> | undefined;
/** The URLs of files imported by modules that were loaded before, by the importing module's URL and the file. */
const importedLater = new Map<string, string>();
/** The digests of code at its load, by its digests since further imports of it have been found. */
const firstDigests = new Map<string, string>();
let queue: Promise<unknown> = Promise.resolve();

/** Maximum milliseconds for which a module may run until its end. */
const MAX_LOAD_TIME = 10_000;

/** Digests of packages' plugins at their import: what runs until the process ends. */
const importedPackages = new Map<string, string>();

const isCode = (file: string): boolean => !file.startsWith(SOURCE) && !file.includes(`${sep}node_modules${sep}`);

registerHooks({
  resolve(specifier, context, next) {
    const resolved = next(specifier, context);
    const parent = context.parentURL;
    if (!specifier.startsWith(".") || !parent?.startsWith("file:") || !resolved.url.startsWith("file:"))
      return resolved;
    const importer = files.get(fileOf(parent));
    const file = fileOf(resolved.url);
    if (!importer || !isCode(file)) return resolved;
    addImport(importer, file);
    return { ...resolved, url: importedUrl(parent, file) };
  },
});

/**
 * Imports a file of a plugin; returns the cached module where neither it nor its imports have changed.
 * @param timeout milliseconds from when its turn has come
 * @throws Error as {@link loadInTime}, and what the code throws
 */
export function importCode(path: string, timeout = MAX_LOAD_TIME): Promise<unknown> {
  const file = realPath(path);
  if (!isCode(file)) {
    if (!importedPackages.has(file)) importedPackages.set(file, packageDigest(file));
    return loadInTime(import(pathToFileURL(file).href), timeout);
  }
  const load = async () => {
    const resolved = new Map<string, string>();
    loading = resolved;
    try {
      const module: unknown = await import(codeUrl(file));
      for (const [each, address] of resolved) files.get(each)?.versions.set(codeDigest(each), address);
      return module;
    } finally {
      if (loading === resolved) loading = undefined;
    }
  };
  // One load at a time, so that the resolved version of each file is known; one that never ends does not count against the next.
  const loaded = queue.then(() => loadInTime(load(), timeout));
  queue = loaded.catch(() => {});
  return loaded;
}

/**
 * Waits until a module has run to its end.
 * @param timeout milliseconds
 * @throws Error when that takes longer
 */
export const loadInTime = <T>(loaded: Promise<T>, timeout: number): Promise<T> =>
  endInTime(timeout, loaded, () => new Error(`has not run to its end after ${timeout / 1000} s: a top-level await?`));

/**
 * Returns the digest of the code that a load of a plugin's file results in: of the current content of the file and of everything
 * it imports of the plugin's code; of a package, what was imported first.
 */
export function codeDigest(path: string): string {
  const file = realPath(path);
  const imported = importedPackages.get(file);
  if (imported !== undefined) return imported;
  const digest = contentDigest(file);
  return firstDigests.get(digest) ?? digest;
}

/** Whether a plugin's package has changed since it was imported, and is read again only at the next start. */
export function hasNewerPackage(path: string): boolean {
  const file = realPath(path);
  const imported = importedPackages.get(file);
  return imported !== undefined && imported !== packageDigest(file);
}

/** Returns the digest of a package's plugin, by its file and the package's version. */
function packageDigest(file: string): string {
  const [folder] = /^.*[\\/]node_modules[\\/](?:@[^\\/]+[\\/])?[^\\/]+[\\/]/.exec(file) ?? [];
  return digestOf(folder === undefined ? [file] : [file, `${folder}package.json`]);
}

const contentDigest = (file: string): string => digestOf([...withImports(file)].sort());

function digestOf(paths: readonly string[]): string {
  const digest = createHash("sha256");
  for (const each of paths) digest.update(`${each}\0${contentOf(each)}\0`);
  return digest.digest("hex").slice(0, 16);
}

/** Returns every loaded file of a plugin's code. */
export function codeFiles(path: string): string[] {
  return [...withImports(realPath(path))];
}

/** Files that did not exist when a plugin was to be loaded from them. */
const missingFiles = new Set<string>();

/** Notes that a plugin's file does not exist. */
export const noteMissing = (file: string): void => void missingFiles.add(file);

/** Returns every file of plugins' code that was to be loaded since the start, also by a load that failed. */
export const triedFiles = (): readonly string[] => [...files.keys(), ...missingFiles];

/** Returns the URLs of a plugin's code as it was imported last; without files that have changed since. */
export function codeUrls(path: string): string[] {
  return codeFiles(path).flatMap((file) => {
    const code = files.get(file);
    return code ? (code.versions.get(codeDigest(file)) ?? []) : pathToFileURL(file).href;
  });
}

/** Resolves symbolic links, as the module loader does. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function codeUrl(file: string): string {
  const resolved = loading?.get(file);
  if (resolved !== undefined) return resolved;
  const code = files.getOrInsertComputed(file, () => ({
    imports: new Set(),
    versions: new Map(),
    importedUrls: new Set(),
  }));
  const version = codeDigest(file);
  const address = code.versions.get(version) ?? unusedUrl(file, version, code.importedUrls);
  loading?.set(file, address);
  return address;
}

/** Returns the URL of a file that a module imports: as a part of a load, or while it runs, as with `import()` in a phase. */
function importedUrl(parent: string, file: string): string {
  const key = `${parent} ${file}`;
  const known = importedLater.get(key);
  if (known !== undefined) return known;
  const url = codeUrl(file);
  if (loading) return url;
  files.get(file)?.versions.set(codeDigest(file), url);
  importedLater.set(key, url);
  return url;
}

/** Records an import. Code that is loaded already, and is found to import more, keeps its digest. */
function addImport(importer: CodeFile, file: string): void {
  if (importer.imports.has(file)) return;
  const loaded = loading
    ? []
    : [...files].map(([path, { versions }]) => ({ path, versions, digest: codeDigest(path) }));
  importer.imports.add(file);
  for (const { path, versions, digest } of loaded)
    if (versions.has(digest)) firstDigests.set(contentDigest(path), digest);
}

/** Returns a URL that was never imported: a failed import stays cached under its URL. */
function unusedUrl(file: string, version: string, tried: Set<string>): string {
  const plain = pathToFileURL(file).href;
  let address = tried.size === 0 ? plain : `${plain}?v=${version}`;
  for (let again = 2; tried.has(address); again++) address = `${plain}?v=${version}-${again}`;
  tried.add(address);
  // Node resolves what CommonJS requires only where that is not cached.
  for (const each of withImports(file)) delete commonModules[each];
  return address;
}

function withImports(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const each of files.get(file)?.imports ?? []) withImports(each, found);
  return found;
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return `cannot be read in ${dirname(resolve(file))}`;
  }
}

const fileOf = (url: string): string => fileURLToPath(url.split(/[?#]/, 1)[0] as string);
