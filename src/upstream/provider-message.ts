import type { Attempt } from "../core/attempt.ts";
import type { Exchange } from "../core/exchange.ts";
import type { Redactor } from "../core/redactor.ts";
import type { HeaderList } from "../wire/headers.ts";
import { parseJson } from "../wire/values.ts";
import { requestIdOf } from "./allow-list.ts";

/** Maximum characters that are kept of a provider's message: one line of the log. */
const MAX_LOGGED_LENGTH = 500;
/** Characters that no text contains: bytes in another encoding, or of a compressed body. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for.
const UNREADABLE = /[\0-\x08\x0e-\x1f\ufffd]/;

/** Records what the head of a response tells that passes unread: its status, its id, and whether our credential is refused. */
export function recordHead(
  exchange: Exchange,
  attempt: Attempt,
  status: number,
  received: HeaderList,
  redactor: Redactor,
): void {
  const id = requestIdOf(received);
  if (id !== undefined) attempt.requestId = redactor.text(id);
  attempt.status = status;
  exchange.status = status;
  addCredentialNotice(attempt, exchange);
}

/** Records the message of a provider's error that passes unchanged, for the log and the console; the client gets all of it. */
export function recordErrorMessage(
  attempt: Attempt,
  { credentials }: Exchange,
  body: Buffer,
  redactor: Redactor,
): void {
  const redacted = redactor.text(errorText(body.toString()), credentials);
  const message =
    redacted.length <= MAX_LOGGED_LENGTH ? redacted : `${redacted.slice(0, MAX_LOGGED_LENGTH - 1)}…`.toWellFormed();
  attempt.refusal = {
    code: "upstream_refused",
    message: message === "" ? `The provider answered ${attempt.status} without a readable error.` : message,
  };
}

/** Returns the message in JSON of any vendor's form, or else the whole text; an empty string for HTML. */
function errorText(text: string): string {
  const trimmed = text.trim();
  if (trimmed.startsWith("<") || UNREADABLE.test(trimmed)) return "";
  return findMessage(parseJson(trimmed), 3) ?? trimmed;
}

/** Finds a vendor's message: `message`, `error: "…"`, `message`, `detail`, or one of these in a list. */
function findMessage(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return value.trim() || undefined;
  if (typeof value !== "object" || value === null || depth === 0) return undefined;
  if (Array.isArray(value)) return findMessage(value[0], depth - 1);
  const { error, message, detail } = value as Record<string, unknown>;
  return findMessage(error, depth - 1) ?? findMessage(message, depth - 1) ?? findMessage(detail, depth - 1);
}

/** Added because the provider's message reads as if the client's own gateway key were wrong. */
const CREDENTIAL_NOTICE =
  "The provider rejected the gateway's own credential. The client's key is not the cause; the operator has to correct the credential.";

/** Adds a notice for the client where the provider's own message refuses our credential. @param isRefused whether it does */
export function addCredentialNotice(
  { credential, status }: Attempt,
  { notices }: Exchange,
  isRefused = status === 401,
): void {
  if (isRefused && credential && !notices.includes(CREDENTIAL_NOTICE)) notices.push(CREDENTIAL_NOTICE);
}
