/**
 * Renames the members of a JSON object, from pieces cut anywhere. All else stays as it is written: values, inner objects, white
 * space. What is no object is returned unchanged.
 */
export class MemberRenamer {
  private depth = 0;
  private isObject = false;
  /** Whether a string that begins now would be a member's name. */
  private atName = false;
  private inString = false;
  private escaped = false;
  /** The member's name so far, with its quotes; undefined: not in one. */
  private name: string | undefined;

  /** @param names new names by those that occur */
  constructor(private readonly names: ReadonlyMap<string, string>) {}

  /** Returns what this piece completes; may be empty. */
  push(piece: string): string {
    let out = "";
    let written = 0;
    for (let i = 0; i < piece.length; i += 1) {
      const char = piece[i] as string;
      if (!this.inString) {
        if (char === '"' && this.atName && this.depth === 1) {
          out += piece.slice(written, i);
          written = i;
          this.name = "";
        }
        this.readOutside(char);
      } else if (this.endsString(char) && this.name !== undefined) {
        out += this.renamed(this.name + piece.slice(written, i + 1));
        written = i + 1;
        this.name = undefined;
      }
    }
    const rest = piece.slice(written);
    if (this.name === undefined) return out + rest;
    this.name += rest;
    return out;
  }

  /** Ends the object, and returns what is left where it is cut. */
  end(): string {
    const rest = this.name ?? "";
    this.name = undefined;
    return rest;
  }

  private readOutside(char: string): void {
    if (char === '"') this.inString = true;
    if (char === "{" || char === "[") {
      if (this.depth === 0) this.isObject = char === "{";
      this.depth += 1;
      this.atName = this.isObject;
    } else if (char === "}" || char === "]") this.depth -= 1;
    else if (char === ",") this.atName = this.isObject;
    else if (char === ":") this.atName = false;
  }

  /** Reads a character of a string; reports whether it ends it. */
  private endsString(char: string): boolean {
    if (this.escaped) this.escaped = false;
    else if (char === "\\") this.escaped = true;
    else if (char === '"') this.inString = false;
    return !this.inString;
  }

  private renamed(text: string): string {
    try {
      const name = this.names.get(JSON.parse(text) as string);
      return name === undefined ? text : JSON.stringify(name);
    } catch {
      return text;
    }
  }
}
