import { statusFault } from "../core/fault.ts";
import type { Head } from "../core/head.ts";
import type { ResponseExchange } from "../core/phases.ts";
import { parseJson } from "../wire/values.ts";
import { toClientError } from "./client-error.ts";
import { translationOf } from "./codec.ts";

/** Bytes of an error response that are read. */
const MAX_ERROR_BYTES = 1024 * 1024;
/** Characters of a plain text that the error's message keeps. */
const MAX_MESSAGE_LENGTH = 500;

/** See `Translations.checkErrorResponse`. */
export async function checkErrorResponse({ protocol }: ResponseExchange, head: Head): Promise<undefined> {
  const { status, headers } = head;
  const text = await errorText(head);
  if (!isJson(text)) {
    const plain = headers.get("content-type")?.startsWith("text/plain") ? text.trim().slice(0, MAX_MESSAGE_LENGTH) : "";
    const message = plain === "" ? `The provider answered ${status} without a readable error.` : plain;
    throw toClientError({ ...statusFault(status, message), code: "upstream_failed" }, headers, status);
  }
  if (status !== 429 || headers.has("x-should-retry")) return;
  const isBilling = translationOf(protocol)?.response.decodeError(status, headers, text).kind === "billing";
  if (isBilling) headers.set("x-should-retry", "false");
}

/** Returns the text of an error response. One whose body breaks off still counts as that error. */
export const errorText = async ({ readBody }: Head): Promise<string> =>
  (await readBody?.(MAX_ERROR_BYTES).then(String, () => "")) ?? "";

/** Reports whether an error body is JSON. The content type is not trusted: some providers omit it, or send a wrong one. */
export function isJson(text: string): boolean {
  const value = parseJson(text);
  return typeof value === "object" && value !== null;
}
