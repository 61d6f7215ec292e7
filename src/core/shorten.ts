/** Maximum characters of a path in a message. */
const MAX_PATH_LENGTH = 200;

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

/**
 * Formats the path of a value for messages: `input.1.id`. Of a long one the beginning: a request may hold thousands of values below
 * names that are megabytes together, and a whole path of each would fill the memory.
 */
export function shortPath(path: Iterable<string | number>): string {
  let text = "";
  let separator = "";
  for (const step of path) {
    text += separator + String(step).slice(0, MAX_PATH_LENGTH + 1);
    if (text.length > MAX_PATH_LENGTH) break;
    separator = ".";
  }
  return shorten(text, MAX_PATH_LENGTH);
}
