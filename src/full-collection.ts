import { setFlagsFromString } from "node:v8";

/** Characters of a text to which V8 gives pages of its own. */
const LARGE = 200_000;

let started = 0;

/**
 * Makes V8 begin a collection of the whole heap, which other threads and short steps of this one then complete. Unlike one that is
 * asked for with `gc`, which V8 makes in one step, it keeps hidden classes that only compiled code refers to, and so the code.
 */
export function startFullCollection(): void {
  // A new name of a property is an old object from the start; V8 looks whether a collection is due when it allocates a large one.
  const name = `${"x".repeat(LARGE)}${++started}`;
  setFlagsFromString("--stress-incremental-marking");
  try {
    Reflect.has(startFullCollection, name);
  } finally {
    setFlagsFromString("--no-stress-incremental-marking");
  }
}
