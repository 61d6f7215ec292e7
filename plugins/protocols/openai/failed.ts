const SAYS_ERROR = /error|fail|exception|denied|not found/i;

/**
 * What a failed result of a tool says, all its texts together: there is no mark for an error in these protocols. A text
 * that does not speak of one is put into `{"error": …}`; undefined where the texts say so themselves.
 */
export function failedText(texts: readonly string[]): string | undefined {
  if (texts.some((text) => SAYS_ERROR.test(text))) return undefined;
  return JSON.stringify({ error: texts.join("\n") || "The tool failed." });
}
