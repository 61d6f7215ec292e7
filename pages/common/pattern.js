/** Reports whether a text fits a pattern, in which `*` matches any text. */
export function fits(pattern, text) {
  const [start, ...rest] = pattern.split("*");
  const end = rest.pop();
  if (end === undefined) return text === start;
  if (!text.startsWith(start)) return false;
  let at = start.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - end.length >= at && text.endsWith(end);
}
