// @ts-check
// tap's reporter for this project: one line per file, failures in full, and the last line "N passed, N failed".
import { Transform } from "node:stream";
import { Parser } from "tap-parser";
import { stringify } from "tap-yaml";

export default class Summary extends Transform {
  count = { passed: 0, failed: 0, skipped: 0, todo: 0 };
  /** What was counted when the last file ended. */
  before = 0;
  /** Failures counted when the last file ended: a file that crashed has none of its own. */
  failedBefore = 0;
  parser = new Parser();
  /** Files that have come to their end: those behind one that ends its process never do. */
  ended = new Set();
  /** Tells those that were to run. */
  files;
  /** The file whose own TAP it is, instead of that of whoever runs files. */
  alone;

  /**
   * @param {() => readonly string[]} files tells, at the end, those that were to run, where that is known
   * @param {string} [alone] it is the TAP of this one
   */
  constructor(files = () => [], alone) {
    super({ decodeStrings: false });
    this.files = files;
    this.alone = alone;
    this.watch(this.parser, this.alone === undefined ? [] : [this.alone]);
  }

  /** @param {Parser} parser @param {string[]} path the files and tests it lies in */
  watch(parser, path) {
    const children = new Set();
    parser.on("child", (child) => {
      children.add(child.name);
      this.watch(child, [...path, child.name]);
    });
    parser.on("assert", (result) => {
      // A test's own result line repeats what its assertions said.
      if (!children.delete(result.name) || result.skip || result.todo) this.tally(result, path);
      if (path.length === 0) this.file(result);
    });
    parser.on("bailout", (reason) => this.push(`BAILOUT ${reason}\n`));
  }

  /** @param {import("tap-parser").Result} result @param {string[]} path */
  tally(result, path) {
    if (result.skip) this.count.skipped++;
    else if (result.todo) this.count.todo++;
    else if (result.ok) this.count.passed++;
    else {
      this.count.failed++;
      const details = result.diag ? `${stringify(result.diag).trimEnd().replace(/^/gm, "    ")}\n` : "";
      this.push(`FAIL ${[...path, result.name].join(" > ")}\n${details}`);
    }
  }

  /** @param {Pick<import("tap-parser").Result, "ok" | "name" | "time">} result */
  file(result) {
    this.ended.add(result.name);
    // It crashed, timed out or exited non-zero without a failing assertion.
    if (!result.ok && this.count.failed === this.failedBefore) this.count.failed++;
    this.failedBefore = this.count.failed;
    const time = result.time ? ` (${Math.round(result.time)} ms)` : "";
    const { passed, failed } = this.count;
    const assertions = passed + failed - this.before;
    this.before = passed + failed;
    this.push(`${result.ok ? "ok  " : "FAIL"} ${result.name}, ${assertions} assertions${time}\n`);
  }

  /** @param {string | Buffer} chunk @param {unknown} _encoding @param {() => void} next */
  _transform(chunk, _encoding, next) {
    this.parser.write(chunk);
    next();
  }

  /** @param {() => void} next */
  _flush(next) {
    this.parser.once("complete", (results) => {
      if (this.alone !== undefined) this.file({ ok: results.ok, name: this.alone, time: results.time });
      const missing = this.files().filter((file) => !this.ended.has(file));
      for (const file of missing) this.push(`FAIL ${file} has not run to its end\n`);
      this.count.failed += missing.length;
      if (!results.ok && this.count.failed === 0) this.count.failed = results.fail || 1;
      const { passed, failed, skipped, todo } = this.count;
      this.push(`${skipped} skipped, ${todo} todo\n${passed} passed, ${failed} failed\n`);
      next();
    });
    this.parser.end();
  }
}
