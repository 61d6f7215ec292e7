/** Characters that do not belong to a secret where they stand beside it: white space, marks around it, and all but ASCII. */
const WORD_END = /[^!#-&+\-/-:=?-Z\\^_a-z|~]/;

/**
 * Returns a text of others in at most so many characters: of a longer one the beginning, without the word that is cut. That may
 * be a part of a secret, which redaction would not recognise.
 */
export function shorten(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  let end = maxLength - 1;
  while (end > 0 && !WORD_END.test(text[end - 1] as string)) end--;
  return `${text.slice(0, end)}…`.toWellFormed();
}
