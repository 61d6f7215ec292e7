import type { Behind, Driver } from "./drivers.ts";
import type { Result } from "./results.ts";

/** A scenario that cannot pass, for a reason in the protocols on its two sides. */
interface Exception {
  /** The driver's file. */
  driver: string;
  /** The prefix of the protocol behind the gateway. */
  behind: string;
  /** Scenarios; a last `*` takes the rest. */
  scenarios: readonly string[];
  reason: string;
}

export const EXCEPTIONS: readonly Exception[] = [];

/** The result without failures that are listed; a listed scenario that passes is simply passed. */
export function allowed(result: Result, driver: Driver, behind: Behind | undefined): Result {
  const listed = EXCEPTIONS.filter((each) => each.driver === driver.file && each.behind === behind?.prefix);
  const named = (scenario: string): boolean =>
    listed.some(({ scenarios }) =>
      scenarios.some((name) => (name.endsWith("*") ? scenario.startsWith(name.slice(0, -1)) : scenario === name)),
    );
  const failures = result.failures.filter(({ scenario }) => !named(scenario));
  return { ...result, failures, excepted: result.failures.length - failures.length };
}
