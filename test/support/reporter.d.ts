import { Transform } from "node:stream";

/** TAP in, lines for people out. */
export default class Summary extends Transform {
  count: { passed: number; failed: number; skipped: number; todo: number };
}
