// Declarations of the doors that plugins import from, as TypeScript writes them, for the reference in docs/.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A name that a door exports, or that stands in what one says. */
export interface Declaration {
  readonly name: string;
  /** What its comment says, without stars. */
  readonly about: string;
  /** As TypeScript writes it, without what is private. */
  readonly text: string;
}

interface DeclarationFile {
  readonly declared: ReadonlyMap<string, Declaration>;
  /** Names from other files: what they are called there, and the file. */
  readonly imported: ReadonlyMap<string, readonly [name: string, file: string]>;
}

/** The declarations of this checkout, made in a temporary folder. */
export class Declarations {
  private readonly files = new Map<string, DeclarationFile>();

  private constructor(private readonly folder: string) {}

  /** @throws Error what tsc says */
  static of<T>(read: (declarations: Declarations) => T): T {
    const folder = mkdtempSync(join(tmpdir(), "gateway-declarations-"));
    try {
      const tsc = join(ROOT, "node_modules/.bin/tsc");
      const { status, stdout } = spawnSync(tsc, ["-p", "tsconfig.types.json", "--outDir", folder], {
        cwd: ROOT,
        encoding: "utf8",
      });
      if (status !== 0) throw new Error(stdout);
      return read(new Declarations(folder));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /** What a door exports, and what these say that it does not, each in the order in which it is met. Who builds a class is left out. */
  door(name: string): { exported: Declaration[]; named: Declaration[] } {
    const { imported } = this.file(join(this.folder, `${name}.d.ts`));
    const found = [...imported.values()].map((place) => this.find(place));
    const exported = found.map(([declaration]) => declaration);
    const named = new Map<string, Declaration>();
    for (const [{ text }, file] of found)
      for (const [word] of text.replaceAll(UNSAID, "").matchAll(/\b[A-Z]\w+/g)) {
        const { declared, imported } = this.file(file);
        const place = imported.get(word) ?? (declared.has(word) ? ([word, file] as const) : undefined);
        if (!place) continue;
        const [declaration] = this.find(place);
        if (!exported.includes(declaration)) named.set(declaration.name, declaration);
      }
    return { exported, named: [...named.values()] };
  }

  /** @throws Error for a name that no file declares */
  private find([name, path]: readonly [string, string]): [Declaration, string] {
    const { declared, imported } = this.file(path);
    const found = declared.get(name);
    if (found) return [found, path];
    const elsewhere = imported.get(name);
    if (!elsewhere) throw new Error(`${path} declares no ${name}`);
    return this.find(elsewhere);
  }

  private file(path: string): DeclarationFile {
    let file = this.files.get(path);
    if (!file) {
      const text = readFileSync(path, "utf8");
      file = { declared: declaredIn(text), imported: importedIn(text, dirname(path)) };
      this.files.set(path, file);
    }
    return file;
  }
}

function importedIn(text: string, folder: string): DeclarationFile["imported"] {
  const found = new Map<string, readonly [string, string]>();
  for (const [, list = "", from = ""] of text.matchAll(/^(?:import|export) (?:type )?\{([^}]*)\} from "(\.[^"]+)"/gm))
    for (const entry of list.split(",")) {
      const [, there, here] = /(\w+)(?:\s+as\s+(\w+))?\s*$/.exec(entry.trim()) ?? [];
      if (there !== undefined) found.set(here ?? there, [there, join(folder, from.replace(/\.ts$/, ".d.ts"))]);
    }
  return found;
}

/** Comments, and what a class is built of. */
const UNSAID = /\/\*\*[\s\S]*?\*\/|^ +constructor\(.*$/gm;
const BEGIN = /^(?:export )?(?:declare )?((?:abstract )?(?:class|interface|type|const|function) (\w+).*)$/;
/** A member that is nobody's business, with its comment. */
const PRIVATE = /^(?: +\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n)? +(?:private|protected) .*\n/gm;

function declaredIn(text: string): Map<string, Declaration> {
  const found = new Map<string, Declaration>();
  const lines = text.split("\n");
  let comment: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] as string;
    if (line.startsWith("/**")) {
      comment = [line];
      while (!(lines[at] as string).includes("*/")) comment.push(lines[++at] as string);
      continue;
    }
    const [, first, name] = BEGIN.exec(line) ?? [];
    if (first === undefined || name === undefined) continue;
    const body = [first];
    // It ends with a line that is not indented, as parts of a union are by one space.
    const end = /^(?:abstract )?(?:class|interface)/.test(first) ? /^(?:\}|.*\{\})$/ : /^ ?\S.*;$/;
    while (!end.test(body.at(-1) as string)) body.push(lines[++at] as string);
    found.set(name, { name, about: plain(comment), text: indented(body.join("\n").replaceAll(PRIVATE, "")) });
    comment = [];
  }
  return found;
}

/** By two spaces a level, as the sources are. */
const indented = (text: string): string => text.replaceAll(/^(?: {4})+/gm, (spaces) => " ".repeat(spaces.length / 2));

const plain = (comment: readonly string[]): string =>
  comment
    .map((line) =>
      line
        .replace(/^\/\*\* ?/, "")
        .replace(/ ?\*\/$/, "")
        .replace(/^ \* ?/, ""),
    )
    .join("\n")
    .trim();
