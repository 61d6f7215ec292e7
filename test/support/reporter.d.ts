import { Transform } from "node:stream";

/** TAP in, lines for people out. */
export default class Summary extends Transform {
  /** @param files tells, at the end, those that were to run, where that is known @param alone it is the TAP of this one */
  constructor(files?: () => readonly string[], alone?: string);
  count: { passed: number; failed: number; skipped: number; todo: number };
}
