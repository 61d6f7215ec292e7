import type { Conversation, Part } from "./conversation.ts";

const CHARSET = /^(text\/[^;]*);(?:.*;)?\s*charset="?([\w.:-]+)"?.*$/is;
const ALIKE = /^(?:utf-?8|us-ascii)$/i;

/** Rewrites text files in another character set that their type names to UTF-8: most vendors read a text in no other one. */
export function rewriteTextFiles({ turns }: Conversation): void {
  for (const { parts } of turns) rewriteIn(parts);
}

function rewriteIn(parts: readonly Part[]): void {
  for (const part of parts) {
    if (part.kind === "tool_result") rewriteIn(part.parts);
    if (part.kind !== "media" || part.media !== "file" || !("base64" in part.source)) continue;
    const [, mime = "", charset = "utf-8"] = CHARSET.exec(part.mime ?? "") ?? [];
    const text = ALIKE.test(charset) ? undefined : decode(part.source.base64, charset);
    if (text === undefined) continue;
    part.source = { base64: Buffer.from(text).toString("base64") };
    part.mime = mime.trim();
  }
}

/** Returns a text; undefined where the bytes are none in that character set, or it is unknown. */
function decode(base64: string, charset: string): string | undefined {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(Buffer.from(base64, "base64"));
  } catch {
    return undefined;
  }
}
