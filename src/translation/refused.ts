import type { Head } from "../core/exchange.ts";
import { faultOf } from "../core/fault.ts";
import type { ResponseExchange } from "../core/phases.ts";
import { translationOf } from "./codec.ts";
import { refusal } from "./faults.ts";

/** Bytes of an error response that are read. */
const LARGEST = 1024 * 1024;
/** Characters of a plain text that the error's message keeps. */
const LONGEST = 500;

/** See `Translations.refused`. */
export async function refused({ protocol }: ResponseExchange, head: Head): Promise<undefined> {
  const { status, headers, whole } = head;
  // An error response whose body breaks off still counts as that error.
  const text = await (whole?.(LARGEST).then(String, () => "") ?? "");
  if (!isJson(text)) {
    const plain = headers.get("content-type")?.startsWith("text/plain") ? text.trim().slice(0, LONGEST) : "";
    const message = plain === "" ? `The provider answered ${status} without a readable error.` : plain;
    throw refusal({ ...faultOf(status, message), code: "upstream_failed" }, headers, status);
  }
  if (status !== 429 || headers.has("x-should-retry")) return;
  const spent = translationOf(protocol)?.response.failure(status, headers, text).kind === "billing";
  if (spent) headers.set("x-should-retry", "false");
}

/** Reports whether an error body is JSON. The content type is not trusted: some providers omit it, or send a wrong one. */
export function isJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}
