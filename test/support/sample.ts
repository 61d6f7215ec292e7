/**
 * With `npm run unit`, one of so many cases is tried where there are thousands, so that a folder takes seconds; otherwise all.
 */
const STRIDE = Number(process.env["GATEWAY_TEST_STRIDE"] ?? 1);

/** Whether every case is tried, so that lists and counts of all of them can be checked. */
export const EVERY_CASE = STRIDE === 1;

/** Returns the cases to try: at least one of `among`, for lists shorter than thousands. */
export const sample = <T>(cases: readonly T[], among = STRIDE): readonly T[] =>
  cases.filter((_, i) => i % Math.min(STRIDE, among) === 0);

/** Returns how many of so many cases are tried; a sample may contain half as many of one kind. */
export const tried = (count: number): number => (EVERY_CASE ? count : Math.floor(count / STRIDE / 2));
