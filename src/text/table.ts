import { plural } from "../core/plural.ts";

/** A column of a plain text table: its title, or that of a column of numbers, which are aligned to the right. */
type TableColumn = string | { right: string };

/** Returns columns of numbers. */
export const numberColumns = (...titles: string[]): TableColumn[] => titles.map((right) => ({ right }));

/** Prints a table. */
export function printTable(
  columns: readonly TableColumn[],
  rows: readonly (readonly string[])[],
  io: { out(line: string): void },
): void {
  for (const line of formatTable(columns, rows)) io.out(line);
}

/** Formats a table: titles, then rows, columns two spaces apart, no trailing spaces. */
export function formatTable(columns: readonly TableColumn[], rows: readonly (readonly string[])[]): string[] {
  const titles = columns.map((column) => (typeof column === "string" ? column : column.right));
  const lines = [titles, ...rows].map((row) => columns.map((_, at) => printable(row[at] ?? "")));
  // No `Math.max(...)`: 130,000 rows are more than a call may have arguments.
  const widths = columns.map((_, at) => lines.reduce((widest, line) => Math.max(widest, width(line[at] ?? "")), 0));
  return lines.map((line) => {
    const cells = line.map((cell, at) => {
      const space = " ".repeat((widths[at] ?? 0) - width(cell));
      return typeof columns[at] === "object" ? space + cell : cell + space;
    });
    return cells.join("  ").trimEnd();
  });
}

/** Formats 1234567 as `1,234,567`. */
export function groupDigits(count: number): string {
  return count.toLocaleString("en-US");
}

/** Formats a count with its noun: `1 row`, `1,200 rows`. */
export const countNoun = (count: number, thing: string): string => `${groupDigits(count)} ${plural(count, thing)}`;

/**
 * Formats nano-dollars, with four decimals or as many as four significant digits need: `$1,204.5000`, `$0.00003125`.
 */
export function formatCost(nano: number): string {
  const amount = nano / 1e9;
  const size = amount === 0 ? 0 : Math.floor(Math.log10(Math.abs(amount)));
  const decimals = Math.min(9, Math.max(4, 3 - size));
  const text = Math.abs(amount).toLocaleString("en-US", { minimumFractionDigits: 4, maximumFractionDigits: decimals });
  return `${amount < 0 ? "-" : ""}$${text}`;
}

/**
 * Matches what a spreadsheet would run as a formula: a name may come from an untrusted user. A name that only starts like one
 * (`@cf/…`) does not match.
 */
const FORMULA = /^[=+\-@\t\r].*[(|!]/s;

/** Formats rows as CSV lines (RFC 4180); a formula gets a `'` in front, which spreadsheets read as text. */
export function formatCsv(rows: readonly (readonly string[])[]): string[] {
  const plain = (text: string) => (FORMULA.test(text) ? `'${text}` : text);
  const quoted = (text: string) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cell = (text: string) => quoted(plain(text));
  return rows.map((row) => row.map(cell).join(","));
}

/** Formats Unix milliseconds as `2026-11-21 12:54:03Z`. */
export function formatUtc(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19).replace("T", " ")}Z`;
}

const width = (text: string): number => [...text].length;

/** Removes control characters, because names are untrusted and must not move a terminal's cursor. */
export const printable = (text: string): string => text.replace(/\p{C}/gu, "?");
