/** Returns bytes in one buffer: a single piece itself, without a copy. */
export const joinPieces = (pieces: readonly Buffer[]): Buffer =>
  pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces);

/** Returns the number of bytes of all pieces. */
export function totalLength(pieces: readonly Buffer[]): number {
  let sum = 0;
  for (const { length } of pieces) sum += length;
  return sum;
}
