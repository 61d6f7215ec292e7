/** Removes what is no text from lists that plugins fill, as headers are made of them. Returns whether there was any such thing. */
export function keepTexts(...lists: string[][]): boolean {
  let removed = false;
  for (const list of lists) {
    const texts = list.filter((each) => typeof each === "string");
    if (texts.length === list.length) continue;
    list.splice(0, list.length, ...texts);
    removed = true;
  }
  return removed;
}
