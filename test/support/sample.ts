/** Of thousands of cases, `npm run unit` tries one in so many, so that a folder takes seconds; all of them without it. */
const STRIDE = Number(process.env["GATEWAY_TEST_STRIDE"] ?? 1);

/** Whether every case is tried, so that what is listed or counted of all of them can be judged. */
export const EVERY_CASE = STRIDE === 1;

/** The cases that are tried: at least one of `among`, where there are not thousands. */
export const sample = <T>(cases: readonly T[], among = STRIDE): readonly T[] =>
  cases.filter((_, i) => i % Math.min(STRIDE, among) === 0);

/** How many of so many cases are tried; of a sample half as many may be of a kind. */
export const tried = (count: number): number => (EVERY_CASE ? count : Math.floor(count / STRIDE / 2));
