/**
 * True for a call's arguments that say nothing: none, `null`, or an empty list, which is how some languages write an
 * object without members. Protocols whose arguments are objects have `{}` for them.
 */
export function saysNothing(text: string): boolean {
  const bare = text.trim();
  return bare === "" || bare === "null" || /^\[\s*\]$/.test(bare);
}
