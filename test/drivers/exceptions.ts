import type { Behind, Driver } from "./drivers.ts";
import type { Result } from "./results.ts";

/** Scenarios that cannot pass, for a reason in the protocols on their two sides. */
interface Exception {
  /** The driver's file. */
  driver: string;
  /** The prefixes of the protocols behind the gateway. */
  behind: readonly string[];
  /** A last `*` takes the rest. */
  scenarios: readonly string[];
  reason: string;
}

const UNTRANSLATED = "images and embeddings pass only to providers that speak their protocol";
const STOP = "it sends stop sequences, which Responses cannot say; leaving them out would change the answer";

export const EXCEPTIONS: readonly Exception[] = [
  { driver: "openai", behind: ["chat", "resp", "ant", "gem"], scenarios: ["images.*", "embed"], reason: UNTRANSLATED },
  {
    driver: "aisdk",
    behind: ["chat", "resp", "ant", "gem"],
    scenarios: ["compat.embed", "compat.imagegen"],
    reason: UNTRANSLATED,
  },
  { driver: "genai", behind: ["chat", "resp", "ant"], scenarios: ["embed"], reason: UNTRANSLATED },
  { driver: "openai", behind: ["resp"], scenarios: ["chat.system"], reason: STOP },
  { driver: "anthropic", behind: ["resp"], scenarios: ["system"], reason: STOP },
  { driver: "genai", behind: ["resp"], scenarios: ["text"], reason: STOP },
  {
    driver: "openai",
    behind: ["chat", "ant", "gem"],
    scenarios: ["resp.store"],
    reason: "it asks to keep the answer for later requests, which only a vendor of Responses does",
  },
  {
    driver: "anthropic",
    behind: ["chat", "resp", "gem"],
    scenarios: ["toolrunner"],
    reason: "the SDK's runner, started this way, sends a tool's result without the call, which no vendor takes",
  },
];

/** The result without failures that are listed; a listed scenario that passes is simply passed. */
export function allowed(result: Result, driver: Driver, behind: Behind | undefined): Result {
  const listed = EXCEPTIONS.filter(
    (each) => each.driver === driver.file && behind && each.behind.includes(behind.prefix),
  );
  const named = (scenario: string): boolean =>
    listed.some(({ scenarios }) =>
      scenarios.some((name) => (name.endsWith("*") ? scenario.startsWith(name.slice(0, -1)) : scenario === name)),
    );
  const failures = result.failures.filter(({ scenario }) => !named(scenario));
  return { ...result, failures, excepted: result.failures.length - failures.length };
}
