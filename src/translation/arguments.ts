/**
 * Reports whether a call's arguments are empty: no text, `null`, or an empty list, which is how some languages serialize an
 * object without members. Protocols whose arguments are objects use `{}` for them.
 */
export function isEmptyArguments(text: string): boolean {
  const bare = text.trim();
  return bare === "" || bare === "null" || /^\[\s*\]$/.test(bare);
}
