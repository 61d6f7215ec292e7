/** A row of a table, and where in the file it begins. */
export interface DelimitedRow {
  /** From 1 on. */
  readonly line: number;
  readonly cells: readonly string[];
}

const DELIMITERS = [",", ";", "\t"] as const;
/** Characters searched for the delimiter: a table's first rows. */
const SAMPLE_LENGTH = 20_000;

/**
 * Parses CSV (RFC 4180), also with semicolons or tabs as delimiters; empty rows are skipped.
 * @throws Error for a quote that is not closed
 */
export function parseDelimited(written: string): DelimitedRow[] {
  const text = written.startsWith("\ufeff") ? written.slice(1) : written;
  const delimiter = detectDelimiter(text.slice(0, SAMPLE_LENGTH));
  const plainCell = new RegExp(`(?:[^"${delimiter}\\r\\n][^${delimiter}\\r\\n]*)?`, "y");
  const cellEnd = new RegExp(`${delimiter}|\\r?\\n|\\r|$`, "y");
  const rows: DelimitedRow[] = [];
  let [line, began, at] = [1, 1, 0];
  let cells: string[] = [];
  while (at < text.length) {
    const quotedEnd = text[at] === '"' ? closingQuote(text, at) : undefined;
    const plain = quotedEnd === undefined ? matchAt(plainCell, text, at) : undefined;
    const behind = quotedEnd === undefined ? at + (plain?.length ?? 0) : quotedEnd + 1;
    const end = matchAt(cellEnd, text, behind);
    if (end === undefined) throw new Error(`line ${line}: a quote is not closed, or something stands behind it.`);
    cells.push((plain ?? text.slice(at + 1, quotedEnd).replaceAll('""', '"')).trim());
    const next = behind + end.length;
    line += text.slice(at, next).split("\n").length - 1;
    at = next;
    const last = at === text.length;
    if (last && end === delimiter) cells.push("");
    if (end !== delimiter || last) {
      if (cells.some((text) => text !== "")) rows.push({ line: began, cells });
      cells = [];
      began = line;
    }
  }
  return rows;
}

/**
 * Returns where a quoted cell's closing quote is; the text's length, behind which nothing matches, where there is none. A regular
 * expression that passes over the quotes within would need stack for each character.
 */
function closingQuote(text: string, opening: number): number {
  let i = text.indexOf('"', opening + 1);
  while (i >= 0 && text[i + 1] === '"') i = text.indexOf('"', i + 2);
  return i < 0 ? text.length : i;
}

function matchAt(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

function detectDelimiter(sample: string): string {
  const bare = sample.replaceAll(/"(?:[^"]|"")*"/g, "");
  const counted = DELIMITERS.map((delimiter) => ({ delimiter, count: bare.split(delimiter).length }));
  return counted.reduce((most, one) => (one.count > most.count ? one : most)).delimiter;
}
