/** Rows as CSV (RFC 4180). Names come from others: what a spreadsheet would run as a formula has a ' before it, as a text has. */
export function csv(rows) {
  const plain = (text) => (/^[=+\-@\t\r].*[(|!]/s.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => `${row.map((value) => quoted(plain(String(value)))).join(",")}\r\n`).join("");
}
