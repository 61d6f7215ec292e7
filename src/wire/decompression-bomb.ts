/** The usual maximum ratio of decoded to encoded bytes, and the decoded size from which it applies. */
export const MAX_RATIO = 100;
const RATIO_FROM = 1 << 20;

/** Reports whether a body, of a request or of an answer, grows to more than so many times its size when it is decoded. */
export const isDecompressionBomb = (decoded: number, encoded: number, ratio = MAX_RATIO): boolean =>
  decoded > RATIO_FROM && decoded > ratio * encoded;
