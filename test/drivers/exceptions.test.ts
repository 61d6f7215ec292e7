import t from "tap";
import { BEHIND, type Behind, DRIVERS, type Driver } from "./drivers.ts";
import { allowed } from "./exceptions.ts";
import type { Result } from "./results.ts";

const failed = (...scenarios: string[]): Result => ({
  driver: "any",
  passed: 3,
  failures: scenarios.map((scenario) => ({ driver: "any", scenario, reason: "it broke" })),
  seconds: 1,
});
const openai = DRIVERS.find(({ name }) => name === "openai") as Driver;
const ant = BEHIND.find(({ prefix }) => prefix === "ant") as Behind;

t.test("what a protocol cannot express is not counted as a failure, everything else is", async (t) => {
  const { failures, excepted, passed } = allowed(failed("images.edit", "embed", "embeds", "chat.tool"), openai, ant);
  t.same(
    failures.map(({ scenario }) => scenario),
    ["embeds", "chat.tool"],
  );
  t.equal(excepted, 2);
  t.equal(passed, 3);
});

t.test("between equal protocols there are no exceptions", async (t) => {
  t.equal(allowed(failed("images.edit", "embed"), openai, undefined).failures.length, 2);
});
