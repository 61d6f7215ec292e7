import type { Test } from "tap";

/**
 * Passes a test whose program is not installed; fails it where a variable like `GATEWAY_TEST_REDIS` is `required`.
 * @param install the package that has the program
 */
export function reportMissing(
  t: Pick<Test, "pass" | "fail">,
  variable: string,
  program: string,
  install: string,
): void {
  if (process.env[variable] === "required") t.fail(`${program} is missing: apt-get install ${install}`);
  else t.pass(`skipped: ${program} is not installed`);
}
