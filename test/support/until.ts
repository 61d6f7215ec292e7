import { setTimeout as after } from "node:timers/promises";

/** Milliseconds for which something is waited: test machines may be busy. */
const LIMIT = 30_000;

/** Milliseconds until the next look: a tenth of what it has taken so far, as a look may be a request that costs others a core. */
const pause = (waited: number): number => Math.min(Math.max(5, waited / 10), 50);

/** Waits until the condition holds, for up to half a minute. @param what named if it does not */
export async function until(condition: () => boolean | Promise<boolean>, what = String(condition)): Promise<void> {
  const began = performance.now();
  while (!(await condition())) {
    const waited = performance.now() - began;
    if (waited > LIMIT) throw new Error(`waited in vain for ${what}`);
    await after(pause(waited));
  }
}
