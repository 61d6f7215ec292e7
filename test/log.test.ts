import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { PinoLog } from "../src/log.ts";

t.test("each line is one JSON object with level, time, message and fields, written once flushed", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-log-"));
  const fd = openSync(join(folder, "log"), "w");
  t.teardown(() => {
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });
  const log = new PinoLog(fd);
  log.info({ a: 1 }, "first");
  log.debug({}, "not written");
  log.level = "error";
  log.warn({}, "not written either");
  log.error({ b: 'quo"te\n' }, "last");
  await log.flush();
  const lines = readFileSync(join(folder, "log"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  t.match(lines, [
    { level: 30, msg: "first", a: 1, time: /^\d{4}-\d\d-\d\dT/ },
    { level: 50, msg: "last", b: 'quo"te\n' },
  ]);
  t.equal(lines.length, 2);
});
