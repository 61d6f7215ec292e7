import type { Attempt, Exchange } from "../core/exchange.ts";
import type { Redactor } from "../core/redactor.ts";

/** Characters that are kept of what a provider says: a line of the log. */
const LONGEST = 500;
/** What no text is made of: bytes of another encoding, or of something packed. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNREADABLE = /[\0-\x08\x0e-\x1f\ufffd]/;

/** Keeps what a provider says in an error that passes as it is: for those who look why, the client has it whole. */
export function keepWords(attempt: Attempt, { credentials }: Exchange, body: Buffer, redactor: Redactor): void {
  const words = redactor.text(wordsOf(body.toString()), credentials);
  const message = words.length <= LONGEST ? words : `${words.slice(0, LONGEST - 1)}…`.toWellFormed();
  attempt.refusal = {
    code: "upstream_refused",
    message: message === "" ? `The provider answered ${attempt.status} without a readable error.` : message,
  };
}

/** The message in JSON of any vendor's form, or else all of it; nothing of a web page. */
function wordsOf(text: string): string {
  const plain = text.trim();
  if (plain.startsWith("<") || UNREADABLE.test(plain)) return "";
  try {
    return messageIn(JSON.parse(plain), 3) ?? plain;
  } catch {
    return plain;
  }
}

/** Where vendors have it: `{error: {message}}`, `{error: "…"}`, `{message}`, `{detail}`, or one of these in a list. */
function messageIn(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return value.trim() || undefined;
  if (typeof value !== "object" || value === null || depth === 0) return undefined;
  if (Array.isArray(value)) return messageIn(value[0], depth - 1);
  const { error, message, detail } = value as Record<string, unknown>;
  return messageIn(error, depth - 1) ?? messageIn(message, depth - 1) ?? messageIn(detail, depth - 1);
}

/** What the provider's own words do not say: they reach who has a key of the gateway's, and would look for the fault there. */
const NOT_YOURS =
  "The provider refused the gateway's own credential. The key of the client is not meant; the operator has to mend it.";

/** Tells the client of a refusal of our credential that passes in the provider's words. @param refused whether it is one */
export function noteCredential({ credential, status }: Attempt, { notices }: Exchange, refused = status === 401): void {
  if (refused && credential && !notices.includes(NOT_YOURS)) notices.push(NOT_YOURS);
}
