import { setTimeout as after } from "node:timers/promises";

/** Milliseconds for which something is waited: test machines may be busy. */
const LIMIT = 30_000;
/** Milliseconds between two looks at what this process knows. */
const INTERVAL = 5;

/** Milliseconds before another process is asked again, a tenth of what it has taken so far: the answer costs others a core. */
const beforeAsking = (waited: number): number => Math.min(Math.max(INTERVAL, waited / 10), 50);

/** Waits until the condition holds, for up to half a minute. @param what named if it does not */
export async function until(condition: () => boolean | Promise<boolean>, what = String(condition)): Promise<void> {
  const began = performance.now();
  for (;;) {
    const look = condition();
    if (await look) return;
    const waited = performance.now() - began;
    if (waited > LIMIT) throw new Error(`waited in vain for ${what}`);
    await after(look instanceof Promise ? beforeAsking(waited) : INTERVAL);
  }
}
