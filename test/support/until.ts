import { setTimeout as after } from "node:timers/promises";

/** Milliseconds between two looks. */
const INTERVAL = 5;

/** Waits until the condition holds, for up to half a minute: test machines may be busy. @param what named if it does not */
export async function until(condition: () => boolean | Promise<boolean>, what = String(condition)): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await after(INTERVAL);
  }
}
