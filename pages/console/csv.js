/**
 * Formats rows as CSV (RFC 4180). Names are untrusted: what a spreadsheet would run as a formula gets a ' in front, which marks a
 * text.
 */
export function csv(rows) {
  const plain = (text) => (/^[=+\-@\t\r].*[(|!]/s.test(text) ? `'${text}` : text);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => `${row.map((value) => quoted(plain(String(value)))).join(",")}\r\n`).join("");
}
