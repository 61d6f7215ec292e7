import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname, resolve, sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/**
 * Loads a plugin's code again when it has changed, and only then: a module can be imported anew under another address only,
 * and never be unloaded. The first version has the plain address of its file, later ones bear a digest. What a plugin
 * imports from beside it counts as its code; packages and the gateway itself do not: those need a restart.
 */

/** A file of a plugin's code. */
interface CodeFile {
  /** What it imports of such files. */
  readonly imports: Set<string>;
  /** Addresses of what was loaded, by the digest of the file and of all that it imports. */
  readonly versions: Map<string, string>;
  /** Addresses that were tried, whatever came of it. */
  readonly tried: Set<string>;
}

const SOURCE = fileURLToPath(new URL("..", import.meta.url));
const files = new Map<string, CodeFile>();
/** What the load that runs has resolved: of each file one version, however many import it. */
let loading: Map<string, string> | undefined;
let queue: Promise<unknown> = Promise.resolve();

/** Milliseconds that one load may keep the next from beginning. */
const LONGEST = 10_000;

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
    importer.imports.add(file);
    return { ...resolved, url: addressOf(file) };
  },
});

/**
 * Imports a file of a plugin: what was imported before where neither it nor what it imports has changed since.
 * @param longest milliseconds that it may keep the next one from beginning
 */
export function importCode(path: string, longest = LONGEST): Promise<unknown> {
  const file = real(path);
  if (!isCode(file)) return import(pathToFileURL(file).href);
  const load = async () => {
    const resolved = new Map<string, string>();
    loading = resolved;
    try {
      const module: unknown = await import(addressOf(file));
      for (const [each, address] of resolved) files.get(each)?.versions.set(versionOf(each), address);
      return module;
    } finally {
      if (loading === resolved) loading = undefined;
    }
  };
  // One at a time, so that it is known which version each file was resolved to; one that never ends keeps nobody waiting.
  const before = queue;
  const loaded = before.then(load);
  queue = before.then(() => settled(loaded, longest));
  return loaded;
}

/** Waits until something has ended, however it did, for so many milliseconds at most. */
async function settled(loaded: Promise<unknown>, longest: number): Promise<void> {
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, longest);
  await Promise.race([loaded, late.promise]).catch(() => {});
  clearTimeout(timer);
}

/** The digest of a file and of all that it imports of a plugin's code, as they are on the disk now. */
export function versionOf(path: string): string {
  const digest = createHash("sha256");
  for (const each of [...withImports(real(path))].sort()) digest.update(`${each}\0${contentOf(each)}\0`);
  return digest.digest("hex").slice(0, 16);
}

/** Every file that a plugin's code consists of, as far as it was loaded. */
export function filesOf(path: string): string[] {
  return [...withImports(real(path))];
}

/** Modules go by the names of their files, not by those of links to them. */
function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function addressOf(file: string): string {
  const resolved = loading?.get(file);
  if (resolved !== undefined) return resolved;
  const code = files.get(file) ?? { imports: new Set(), versions: new Map(), tried: new Set() };
  files.set(file, code);
  const version = versionOf(file);
  const address = code.versions.get(version) ?? fresh(file, version, code.tried);
  loading?.set(file, address);
  return address;
}

/** An address that was never tried: what failed once stays failed under its own. */
function fresh(file: string, version: string, tried: Set<string>): string {
  const plain = pathToFileURL(file).href;
  let address = tried.size === 0 ? plain : `${plain}?v=${version}`;
  for (let again = 2; tried.has(address); again++) address = `${plain}?v=${version}-${again}`;
  tried.add(address);
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
