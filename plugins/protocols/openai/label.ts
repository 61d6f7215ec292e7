import { createHash } from "node:crypto";
import type { EncodeContext } from "model-gateway/protocol";

/** The longest key or name of a user that every model takes. [S] */
const LONGEST = 64;

/**
 * A name of a user or a key of a cache as the vendor takes it: one that is too long as its SHA-256 in hex, which is as
 * good to tell them apart, and said.
 * @param path where the client said it
 */
export function label(text: string, path: string, terms: EncodeContext): string {
  if (text.length <= LONGEST) return text;
  terms.change(path, `It is longer than ${LONGEST} characters: its SHA-256 is sent`);
  return createHash("sha256").update(text).digest("hex");
}
