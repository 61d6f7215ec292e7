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
  // A quoted cell, or an unquoted one, and the delimiter or line end after it.
  const cell = new RegExp(
    `(?:"((?:[^"]|"")*)"|([^"${delimiter}\\r\\n][^${delimiter}\\r\\n]*)?)(${delimiter}|\\r?\\n|\\r|$)`,
    "y",
  );
  const rows: DelimitedRow[] = [];
  let [line, began] = [1, 1];
  let cells: string[] = [];
  while (cell.lastIndex < text.length) {
    const at = cell.lastIndex;
    const found = cell.exec(text);
    if (!found) throw new Error(`line ${line}: a quote is not closed, or something stands behind it.`);
    const [whole, quoted, plain = "", end = ""] = found;
    cells.push((quoted?.replaceAll('""', '"') ?? plain).trim());
    line += whole.split("\n").length - 1;
    const last = at + whole.length === text.length;
    if (last && end === delimiter) cells.push("");
    if (end !== delimiter || last) {
      if (cells.some((text) => text !== "")) rows.push({ line: began, cells });
      cells = [];
      began = line;
    }
  }
  return rows;
}

function detectDelimiter(sample: string): string {
  const bare = sample.replaceAll(/"(?:[^"]|"")*"/g, "");
  const counted = DELIMITERS.map((delimiter) => ({ delimiter, count: bare.split(delimiter).length }));
  return counted.reduce((most, one) => (one.count > most.count ? one : most)).delimiter;
}
