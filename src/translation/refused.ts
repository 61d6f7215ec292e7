import type { Head } from "../core/exchange.ts";
import { faultOf } from "../core/fault.ts";
import type { ResponseExchange } from "../core/phases.ts";
import { translationOf } from "./codec.ts";
import { refusal } from "./faults.ts";

/** Bytes of an error that are looked into. */
const LARGEST = 1024 * 1024;
/** Characters of a plain text that become the error's message. */
const LONGEST = 500;

/** See `Translations.refused`. */
export async function refused({ protocol }: ResponseExchange, head: Head): Promise<undefined> {
  const { status, headers, whole } = head;
  // An error whose text breaks off is still that error.
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

/** Whether an error can be read. Not every provider names the type of its errors, and some name a wrong one. */
export function isJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null;
  } catch {
    return false;
  }
}
