/** Returns an image's media type by its first bytes; undefined: another one. Many clients name a wrong type. */
export function imageType(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, 16), "base64").toString("latin1");
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(head)) return "image/gif";
  return /^RIFF.{4}WEBP/s.test(head) ? "image/webp" : undefined;
}
