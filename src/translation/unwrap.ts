/** Returns a pattern for the beginning of an object whose first member is a string. */
const openingOf = (member: string): RegExp => new RegExp(`^\\s*\\{\\s*"${member}"\\s*:\\s*"`);
/** Returns a pattern for an incomplete opening: `{ "i`, `{ "in`, … */
const beginningOf = (member: string): RegExp =>
  new RegExp(`^\\s*(\\{\\s*("${[...member].reduceRight((rest, char) => `(${char}${rest})?`, '("\\s*(:\\s*)?)?')})?)?$`);
/** The member that holds the free text of a custom tool that is offered as a function. */
const INPUT = { member: "input", opening: openingOf("input"), beginning: beginningOf("input") };
/** Maximum characters before the text; longer arguments do not have this form. */
export const MAX_OPENING = 256;
const ESCAPES: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const PLAIN = /[^"\\]+/y;
const EMPTY_OBJECT = /^\s*\{\s*\}\s*$/;
const HIGH_SURROGATE = /[\ud800-\udbff]$/;

/**
 * Extracts the text from an object of one member, like the arguments of a custom tool that was offered as a function,
 * `{"input": "…"}`, from pieces cut anywhere. Arguments of another form are buffered to their end; unless they contain the
 * member, they are the text, and an empty object is an empty one.
 */
export class TextUnwrapper {
  private state: "opening" | "text" | "over" | "other" = "opening";
  /** Input that cannot be decoded yet: an opening, or an incomplete escape. */
  private pending = "";
  /** The first half of a surrogate pair, waiting for the second. */
  private highSurrogate = "";

  private readonly form: typeof INPUT;

  constructor(member = INPUT.member) {
    const isDefault = member === INPUT.member;
    this.form = isDefault ? INPUT : { member, opening: openingOf(member), beginning: beginningOf(member) };
  }

  /** Returns the text that this piece completes; may be empty. */
  push(piece: string): string {
    if (this.state === "over") return "";
    this.pending += piece;
    if (this.state === "opening") this.readOpening();
    return this.state === "text" ? this.readText() : "";
  }

  /** Ends the arguments, and returns the rest of the text. */
  end(): string {
    const { highSurrogate: half, pending } = this;
    this.highSurrogate = this.pending = "";
    if (this.state === "text") return half + pending;
    if (this.state === "over") return "";
    return textIn(pending, this.form.member) ?? pending;
  }

  private readOpening(): void {
    const opening = this.form.opening.exec(this.pending)?.[0];
    if (opening !== undefined) {
      this.state = "text";
      this.pending = this.pending.slice(opening.length);
    } else if (this.pending.length > MAX_OPENING || !this.form.beginning.test(this.pending)) this.state = "other";
  }

  private readText(): string {
    let text = this.highSurrogate;
    let index = 0;
    while (index < this.pending.length) {
      const char = this.pending[index] as string;
      if (char === '"') {
        this.state = "over";
        this.highSurrogate = this.pending = "";
        return text;
      } else if (char === "\\") {
        const escapeText = /^\\(?:u[\da-fA-F]{4}|[^u])/s.exec(this.pending.slice(index, index + 6))?.[0];
        if (escapeText === undefined) break;
        text +=
          escapeText.length === 6
            ? String.fromCharCode(Number.parseInt(escapeText.slice(2), 16))
            : unescapeLetter(escapeText);
        index += escapeText.length;
      } else {
        PLAIN.lastIndex = index;
        PLAIN.test(this.pending);
        text += this.pending.slice(index, PLAIN.lastIndex);
        index = PLAIN.lastIndex;
      }
    }
    this.pending = this.pending.slice(index);
    this.highSurrogate = this.state === "text" && HIGH_SURROGATE.test(text) ? text.slice(-1) : "";
    return this.highSurrogate === "" ? text : text.slice(0, -1);
  }
}

const unescapeLetter = ([, letter = ""]: string): string => ESCAPES[letter] ?? letter;

function textIn(json: string, member: string): string | undefined {
  if (EMPTY_OBJECT.test(json)) return "";
  try {
    const text = (JSON.parse(json) as Record<string, unknown>)[member];
    return typeof text === "string" ? text : undefined;
  } catch {
    return undefined;
  }
}
