/** Returns the media type and the base64 of a `data:` URL. */
export function partsOf(url) {
  const [, type = "", base64 = ""] = /^data:([^;,]+);base64,(.*)$/s.exec(url) ?? [];
  return { type, base64 };
}
