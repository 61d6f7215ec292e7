import { letterVariants } from "./any-case.ts";
import { BACKSLASH, QUOTE } from "./grammar.ts";

const BYTES = 256;
/** The beginnings, behind the backslash, of escapes that may stand for a letter, or for one that folds to an ASCII letter. */
const ESCAPES = ["u00", "u017", "u212"];
const FOUND = -1;

/**
 * Searches JSON for any of several names in quotes, in any case: one step of a table for each byte, whatever the text is, as clients
 * choose it. As no name has a quote in it, a quote always begins anew.
 */
export class QuotedNameSearch {
  /** The state that follows a state for each byte. A state is the offset of its row; the first one is that between names. */
  private readonly next: Int32Array;
  private readonly rows: Int32Array[] = [];

  /** @param names in ASCII, without quotes and backslashes */
  constructor(names: readonly string[]) {
    this.addState();
    const [afterQuote, afterBackslash] = [this.addState(), this.addState()];
    for (const name of names) this.addPath(afterQuote, [...name], QUOTE);
    for (const start of ESCAPES)
      this.addPath(afterBackslash, [...start.slice(0, -1)], start.charCodeAt(start.length - 1));
    for (const row of this.rows) {
      if (row[QUOTE] !== FOUND) row[QUOTE] = afterQuote;
      row[BACKSLASH] = afterBackslash;
    }
    this.next = new Int32Array(this.rows.length * BYTES);
    for (const [i, row] of this.rows.entries()) this.next.set(row, i * BYTES);
  }

  /** Returns false if none occurs. True: one does, or an escape, which may stand for a letter. */
  mayOccurIn(bytes: Buffer): boolean {
    const { next } = this;
    let state = 0;
    for (let at = 0; at < bytes.length; at++) {
      state = next[state + (bytes[at] as number)] as number;
      if (state === FOUND) return true;
    }
    return false;
  }

  private addState(): number {
    return (this.rows.push(new Int32Array(BYTES)) - 1) * BYTES;
  }

  private rowOf(state: number): Int32Array {
    return this.rows[state / BYTES] as Int32Array;
  }

  /** Adds the states for letters, in all their spellings, and the byte that is found after them. */
  private addPath(from: number, letters: readonly string[], last: number): void {
    let state = from;
    for (const letter of letters) {
      const [first = letter, ...others] = letterVariants(letter);
      const after = this.stateAfter(state, first.charCodeAt(0));
      for (const other of others) this.addSpelling(state, Buffer.from(other), after);
      state = after;
    }
    this.rowOf(state)[last] = FOUND;
  }

  private addSpelling(from: number, spelling: Buffer, after: number): void {
    let state = from;
    for (const byte of spelling.subarray(0, -1)) state = this.stateAfter(state, byte);
    this.rowOf(state)[spelling.at(-1) as number] = after;
  }

  private stateAfter(state: number, byte: number): number {
    const row = this.rowOf(state);
    row[byte] ||= this.addState();
    return row[byte] as number;
  }
}
