/**
 * Returns JSON texts with commas. They are appended to each other, which copies none of them: `join` would copy all of a long one at
 * each level.
 */
export const joined = (texts: readonly string[]): string =>
  texts.reduce((all, text) => (all === "" ? text : `${all},${text}`), "");

/** A string's JSON, built with its pieces, so that a long one is never serialized as a whole. */
export class JsonString {
  private written = "";
  /** The first half of a surrogate pair at the end, whose second half may follow: it is escaped only if it stays alone. */
  private half = "";
  isEmpty = true;

  /** Appends a piece. Returns the JSON of the piece. */
  add(piece: string): string {
    const json = JSON.stringify(piece);
    this.isEmpty = false;
    const last = piece.charCodeAt(piece.length - 1);
    const isCut = last >= 0xd800 && last <= 0xdbff;
    if (this.half === "" && !isCut) this.written += json.slice(1, -1);
    else {
      const text = this.half + piece;
      this.half = isCut ? text.slice(-1) : "";
      this.written += JSON.stringify(isCut ? text.slice(0, -1) : text).slice(1, -1);
    }
    return json;
  }

  /** Returns the JSON of the whole string. */
  toString(): string {
    return `"${this.written}${this.half === "" ? "" : JSON.stringify(this.half).slice(1, -1)}"`;
  }
}
