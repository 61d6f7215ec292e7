import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { JsonLog } from "../../src/core/log.ts";
import { until } from "../support/until.ts";

t.test("each line is one JSON object with level, time, message and fields, written once flushed", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-log-"));
  const fd = openSync(join(folder, "log"), "w");
  t.teardown(() => {
    closeSync(fd);
    rmSync(folder, { recursive: true });
  });
  const log = new JsonLog(fd);
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

t.test("an error is logged with its stack, and a value without JSON omits only the fields of its line", async (t) => {
  const { fd, log } = piped(t);
  log.warn({ err: new TypeError("odd") }, "told");
  log.error({ many: 1n }, "still there");
  await log.flush();
  const lines = taken(fd).trim().split("\n");
  t.match(
    lines.map((line) => JSON.parse(line) as object),
    [
      { level: 40, msg: "told", err: { type: "TypeError", message: "odd", stack: /log\.test/ } },
      { level: 50, msg: "still there", unwritten: /BigInt/ },
    ],
  );
});

t.test("fields that are no object leave the line one, and an error in their place is logged as such", async (t) => {
  const { fd, log } = piped(t);
  for (const fields of ["a text", 5, null, undefined, [1, 2], () => {}, { toJSON: () => "a text" }, new Error("odd")])
    log.info(fields as object, "m");
  await log.flush();
  const lines = taken(fd).trim().split("\n");
  const told = lines.map((line) => JSON.parse(line) as { fields?: unknown; err?: { message: string } });
  t.same(
    told.map(({ fields, err }) => fields ?? err?.message),
    ["a text", 5, undefined, undefined, [1, 2], undefined, "a text", "odd"],
  );
});

t.test("a line without a message is one, too", async (t) => {
  const { fd, log } = piped(t);
  const info = log.info.bind(log) as (fields: unknown, message?: string) => void;
  info("a text");
  info({ a: 1 });
  info({ a: 2 }, "");
  info({ a: 3 });
  await log.flush();
  const lines = taken(fd).trim().split("\n");
  t.match(
    lines.map((line) => JSON.parse(line) as object),
    [
      { fields: "a text", msg: null },
      { a: 1, msg: null },
      { a: 2, msg: "" },
      { a: 3, msg: null },
    ],
  );
});

t.test("members are serialized as by JSON.stringify, whatever they contain", async (t) => {
  const { fd, log } = piped(t);
  const texts = ["plain", "", 'a"b', "back\\slash", "line\nend", "\u0000", "\u007f", "ü", "\ud800", "😀", "</script>"];
  const odd: object[] = [
    ...texts.flatMap((text) => [{ text }, { [text]: 1 }, { one: "x", text, last: true }]),
    ...[0, -0, 1.5, 1e21, 1e-7, Number.NaN, Number.POSITIVE_INFINITY, true, null, undefined].map((value) => ({
      value,
    })),
    ...[{ list: [1, "a"], in: { deep: "é" } }, { date: new Date(0) }, { toJSON: () => ({ b: 2 }) }, { a() {}, b: 1 }],
    ...[
      new (class Own {
        shown = 1;
      })(),
      Object.create({ inherited: 1 }),
      Object.assign(Object.create(null), { bare: "x" }),
    ],
  ];
  for (const fields of odd) log.info(fields, "line");
  await log.flush();
  const lines = taken(fd).trim().split("\n");
  t.equal(lines.length, odd.length);
  for (const [i, fields] of odd.entries()) {
    const members = JSON.stringify(fields).slice(1, -1);
    const written = /^\{"level":30,"time":"[^"]+",(.*)"msg":"line"\}$/.exec(lines[i] as string)?.[1];
    t.equal(written, members && `${members},`, `line ${i}`);
  }
});

t.test("each level writes what is at least as severe, and silent writes nothing", async (t) => {
  const { fd, log } = piped(t);
  for (const level of ["trace", "debug", "info", "warn", "error", "fatal", "silent"]) {
    log.level = level;
    for (const each of ["debug", "info", "warn", "error"] as const)
      log[each]({ level: undefined }, `${each} at ${level}`);
  }
  await log.flush();
  const found = taken(fd)
    .trim()
    .split("\n")
    .map((line) => (JSON.parse(line) as { msg: string }).msg);
  const all = (level: string, ...names: string[]) => names.map((name) => `${name} at ${level}`);
  t.same(found, [
    ...all("trace", "debug", "info", "warn", "error"),
    ...all("debug", "debug", "info", "warn", "error"),
    ...all("info", "info", "warn", "error"),
    ...all("warn", "warn", "error"),
    ...all("error", "error"),
  ]);
});

/** A pipe that holds 64 KiB, with a log at its one end. It stays open: a log that was given up may still try it. */
function piped(t: Test, limit?: number): { fd: number; log: JsonLog } {
  const folder = mkdtempSync(join(tmpdir(), "gateway-log-"));
  execFileSync("mkfifo", [join(folder, "log")]);
  const fd = openSync(join(folder, "log"), constants.O_RDWR | constants.O_NONBLOCK);
  t.teardown(() => rmSync(folder, { recursive: true }));
  return { fd, log: new JsonLog(fd, limit) };
}

/** What has come through a pipe so far. */
function taken(fd: number): string {
  const bytes = Buffer.alloc(1 << 20);
  try {
    return bytes.toString("utf8", 0, readSync(fd, bytes));
  } catch {
    return "";
  }
}

t.test("a reader that does not read delays nobody: dropped lines are counted on standard error", async (t) => {
  const { fd, log } = piped(t);
  const said = t.capture(process.stderr, "write", () => true);
  for (let i = 0; i < 4000; i++) log.info({ i }, "a line");
  await log.flush();
  const [line] = said().map(({ args }) => JSON.parse(args[0] as string) as { lost: number });
  t.match(line, { level: 50, msg: "log lines were lost" });
  const whole = taken(fd).split("\n").length - 1;
  t.ok(whole > 0);
  t.equal(whole + (line?.lost ?? 0), 4000);
  await log.flush();
  t.equal(said().length, 0, "logged once");
});

t.test("a slow reader gets every line, in order", async (t) => {
  const { fd, log } = piped(t);
  let text = "";
  for (let i = 0; i < 4000; i++) log.info({ i }, "a line");
  const reading = setInterval(() => {
    text += taken(fd);
  }, 20);
  await log.flush();
  clearInterval(reading);
  text += taken(fd);
  t.same(
    text
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { i: number }).i),
    Array.from({ length: 4000 }, (_, i) => i),
  );
});

t.test("lines dropped for a stopped reader are counted in the log once it reads again", async (t) => {
  const { fd, log } = piped(t, 256 * 1024);
  for (let i = 0; i < 10_000; i++) log.info({ i }, "a line");
  let text = "";
  const reading = setInterval(() => {
    text += taken(fd);
  }, 1);
  await until(() => text.includes("were lost"));
  clearInterval(reading);
  const told = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { i?: number; lost?: number });
  const kept = told.filter(({ i }) => i !== undefined).length;
  t.equal(kept + (told.at(-1)?.lost ?? 0), 10_000);
  t.ok(kept < 5000, "the waiting output is limited");
});

t.test("a process that exits abruptly has written its lines", async (t) => {
  const script = `
    import { JsonLog } from ${JSON.stringify(new URL("../../src/core/log.ts", import.meta.url).href)};
    const log = new JsonLog();
    for (let i = 0; i < 100; i++) log.info({ i }, "a line");
    process.exit();
  `;
  const hook = fileURLToPath(new URL("../../src/loader/register.js", import.meta.url));
  const text = execFileSync(process.execPath, ["--import", hook, "--input-type=module", "-e", script], {
    encoding: "utf8",
  });
  t.equal(text.split("\n").length - 1, 100);
});
