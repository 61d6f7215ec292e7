import { formatError } from "../text/format-error.ts";

/** Maximum characters: a provider chooses some of them. */
const MAX_LENGTH = 500;

/** The members of errors and their causes, in which the OpenID Connect package keeps what the provider sent. */
interface Cause {
  readonly message?: string;
  readonly code?: string;
  readonly cause?: unknown;
  readonly error?: string;
  readonly error_description?: string;
  readonly attribute?: string;
  readonly expected?: unknown;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly claim?: string;
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly now?: number;
}

/**
 * Formats in one line why a sign-in failed. A message of the package is general ("the response is an error"): the reason, like
 * `invalid_client`, is in its causes. Errors that are not foreseen keep their stack.
 */
export function formatSignInError(thrown: unknown): string {
  const { code, message } = thrown as Cause;
  if (!code?.startsWith("OAUTH_") && message !== "fetch failed") return formatError(thrown);
  const parts: string[] = [];
  for (let cause = thrown; typeof cause === "object" && cause !== null; cause = (cause as Cause).cause)
    parts.push(...reasonsOf(cause));
  return [...new Set(parts)].join(": ").replaceAll(/\s+/g, " ").slice(0, MAX_LENGTH);
}

function reasonsOf(cause: object): string[] {
  if (cause instanceof Response) return [`${cause.status} from ${cause.url}`];
  // Challenges of WWW-Authenticate.
  if (Array.isArray(cause)) return cause.flatMap(({ parameters = {} }) => reasonsOf(parameters as object));
  const { message, code, error, error_description, attribute, expected, body, claim, claims, now } = cause as Cause;
  const texts = [message || code, error, error_description].filter((text) => typeof text === "string");
  if (attribute !== undefined && body) texts.push(`its ${attribute} is ${body[attribute]}, not ${expected}`);
  if (claim !== undefined && now !== undefined) texts.push(`${claim} is ${claims?.[claim]}, and the time here ${now}`);
  return texts;
}
