import type { Media } from "./conversation.ts";

const CHARSET = /;\s*charset="?([\w.:-]+)/i;

/**
 * Returns the text of a text file, in UTF-8 unless its type names another character set. Undefined for other files, and for bytes
 * that are no such text.
 */
export function textOfFile({ media, source, mime }: Media): string | undefined {
  if (media !== "file") return undefined;
  if ("text" in source) return source.text;
  if (!("base64" in source) || !mime?.startsWith("text/")) return undefined;
  try {
    const decoder = new TextDecoder(CHARSET.exec(mime)?.[1] ?? "utf-8", { fatal: true, ignoreBOM: true });
    return decoder.decode(Buffer.from(source.base64, "base64"));
  } catch {
    return undefined;
  }
}
