import type { Conversation, Part } from "./conversation.ts";
import type { Steps } from "./steps.ts";

const CHARSET = /^(text\/[^;]*);(?:.*;)?\s*charset="?([\w.:-]+)"?.*$/is;
const ALIKE = /^(?:utf-?8|us-ascii)$/i;

/** Bytes that are decoded in one turn. */
const BYTES_A_TURN = 256 * 1024;

/** Rewrites text files in another character set that their type names to UTF-8: most vendors read a text in no other one. */
export function* rewriteTextFiles({ turns }: Conversation): Steps<void> {
  for (const { parts } of turns) yield* rewriteIn(parts);
}

function* rewriteIn(parts: readonly Part[]): Steps<void> {
  for (const part of parts) {
    if (part.kind === "tool_result") yield* rewriteIn(part.parts);
    if (part.kind !== "media" || part.media !== "file" || !("base64" in part.source)) continue;
    const [, mime = "", charset = "utf-8"] = CHARSET.exec(part.mime ?? "") ?? [];
    const base64 = ALIKE.test(charset) ? undefined : yield* toUtf8(part.source.base64, charset);
    if (base64 === undefined) continue;
    part.source = { base64 };
    part.mime = mime.trim();
  }
}

/** Returns a text in UTF-8; undefined where the bytes are none in that character set, or it is unknown. */
function* toUtf8(base64: string, charset: string): Steps<string | undefined> {
  try {
    const decoder = new TextDecoder(charset, { fatal: true });
    const bytes = Buffer.from(base64, "base64");
    let encoded = "";
    let rest: Buffer = Buffer.alloc(0);
    for (let at = 0; at < bytes.length; at += BYTES_A_TURN) {
      if (at > 0) yield;
      const text = decoder.decode(bytes.subarray(at, at + BYTES_A_TURN), { stream: at + BYTES_A_TURN < bytes.length });
      const utf8 = Buffer.concat([rest, Buffer.from(text)]);
      // Base64 of three bytes each can be joined.
      const whole = utf8.length - (utf8.length % 3);
      encoded += utf8.toString("base64", 0, whole);
      rest = utf8.subarray(whole);
    }
    return encoded + rest.toString("base64");
  } catch {
    return undefined;
  }
}
