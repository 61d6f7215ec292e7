/** Returns a whole number from 0 on, below a limit. */
export type Cast = (limit: number) => number;

/** Returns a generator of numbers below a limit, the same for the same seed. */
export function dice(seed: number): Cast {
  // Exact: as a floating-point number the product of a large seed would lose the bits in which the seeds differ.
  let state = Number(BigInt.asUintN(32, BigInt(seed) * 2654435761n + 12345n));
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}
