/** A scenario that did not pass, and why. */
export interface Failure {
  driver: string;
  scenario: string;
  reason: string;
}

/** How a driver's run went. */
export interface Result {
  driver: string;
  passed: number;
  failures: Failure[];
  /** Scenarios that cannot pass for a reason in the vendors' protocols, and did not. */
  excepted?: number;
  seconds: number;
}

/**
 * Reads a driver's lines: `PASS client scenario 12ms (note)` or `FAIL client scenario 12ms: reason`, and in the end
 * `PASS client: 35/35 scenarios in 6.1s …`. A driver that broke before its last line has failed, whatever else it said.
 */
export function readResult(driver: string, output: string, seconds: number): Result {
  const lines = output.split("\n");
  const failures = lines.flatMap((line): Failure[] => {
    const found = /^FAIL \S+ (\S+) \d+ms: (.*)$/.exec(line);
    return found ? [{ driver, scenario: found[1] as string, reason: found[2] as string }] : [];
  });
  const passed = lines.filter((line) => /^PASS \S+ \S+ \d+ms/.test(line)).length;
  const ended = lines.some((line) => /^(PASS|FAIL) \S+: \d+\/\d+ scenarios/.test(line));
  if (!ended || passed + failures.length === 0)
    failures.push({ driver, scenario: "(the driver itself)", reason: output.trim().slice(-400) || "it said nothing" });
  return { driver, passed, failures, seconds };
}

/** What a clock has judged: beside other programs it may come late, and is asked again by itself. */
export const late = ({ failures }: Result): string[] =>
  failures.filter(({ reason }) => /after \d+ ms/.test(reason)).map(({ scenario }) => scenario);

/** The result with what a second run of some scenarios came to. */
export function again(result: Result, second: Result): Result {
  const asked = new Set(late(result));
  const others = result.failures.filter(({ scenario }) => !asked.has(scenario));
  return { ...result, passed: result.passed + second.passed, failures: [...others, ...second.failures] };
}

/** One line for a driver. */
export const resultLine = ({ driver, passed, failures, excepted = 0, seconds }: Result): string =>
  `${driver.padEnd(24)} ${`${passed}/${passed + failures.length}`.padStart(7)} ${seconds.toFixed(1).padStart(6)} s${excepted > 0 ? `  (${excepted} cannot pass)` : ""}`;

/** What failed, and the sum of everything as the last line. */
export function summary(results: readonly Result[]): string {
  const failures = results.flatMap((result) => result.failures);
  const passed = results.reduce((sum, result) => sum + result.passed, 0);
  const table = failures.map(({ driver, scenario, reason }) => `  ${driver}  ${scenario}\n      ${reason}`);
  return [
    ...(table.length > 0 ? ["", "Failed:", ...table, ""] : []),
    `${passed} passed, ${failures.length} failed`,
  ].join("\n");
}
