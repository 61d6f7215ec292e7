import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import { until } from "./until.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const file = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

/** Returns the output and outcome of `npm test` for files with these bodies, run in one process. */
async function run(t: Test, bodies: Readonly<Record<string, string>>, seconds = 100) {
  const files = Object.entries(bodies).map(([name, body]) => [`${name}.ts`, `import t from "tap";\n${body}\n`]);
  const folder = relative(ROOT, t.testdir(Object.fromEntries(files)));
  const names = files.map(([name]) => `${folder}/${name}`);
  const env = Object.entries(process.env).filter(([name]) => !/^_?TAP|^NODE_OPTIONS$/.test(name));
  const args = ["--import", file("../../src/loader/register.js"), file("../all.ts"), names.join(",")];
  const options = { cwd: ROOT, env: { ...Object.fromEntries(env), TAP_TIMEOUT: String(seconds) } };
  return new Promise<{ output: string; failed: boolean }>((resolve) =>
    execFile(process.execPath, args, options, (error, output) =>
      resolve({ output: output.replaceAll(`${folder}/`, ""), failed: error !== null }),
    ),
  );
}

/** Like a loop that never ends, and uses no CPU. */
const BLOCKS = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);";
const FINE = 't.test("fine", async (t) => t.ok(true));';
const CASES: Readonly<Record<string, { body: string; seconds?: number; says: RegExp }>> = {
  "an assertion that does not hold": {
    body: 't.test("wrong", async (t) => t.ok(false, "why"));',
    says: /^FAIL b\.ts > wrong > why$/m,
  },
  "a throw while it is loaded": { body: 'throw new Error("no");', says: /^FAIL b\.ts/m },
  "a throw of a timer": {
    body: 't.test("late", () => new Promise(() => setTimeout(() => { throw new Error("no"); })));',
    says: /^FAIL b\.ts/m,
  },
  "an end of the process": { body: 't.test("ends", async () => process.exit(0));', says: /^FAIL b\.ts/m },
  "a killed process": {
    body: 't.test("killed", async () => process.kill(process.pid, "SIGKILL"));',
    says: /^FAIL b\.ts/m,
  },
  "a test that never ends": {
    body: 't.test("waits", () => new Promise(() => setInterval(() => {}, 1000)));',
    seconds: 10,
    says: /^FAIL b\.ts/m,
  },
  "a thread that never returns": {
    body: `t.test("blocks", async () => { ${BLOCKS} });`,
    seconds: 10,
    says: /^FAIL b\.ts has not run to its end$/m,
  },
};

// In parallel, as each test waits for a timeout.
t.jobs = 4;
for (const [what, { body, seconds, says }] of Object.entries(CASES)) {
  t.test(`${what} is a failure of its file between others in one process`, async (t) => {
    const { output, failed } = await run(t, { a: FINE, b: body, c: FINE }, seconds);
    t.match(output, says);
    t.match(output, /^ok {3}a\.ts, 1 assertions/m);
    t.match(output, /, [1-9]\d* failed\n$/);
    t.ok(failed);
    if (!/^ok {3}c\.ts/m.test(output)) t.match(output, /^FAIL c\.ts/m, "a file that did not run is reported");
  });
  if (seconds === undefined)
    t.test(`${what} is a failure of a file alone`, async (t) => {
      const { output, failed } = await run(t, { b: body });
      t.match(output, /^FAIL b\.ts[\s\S]*, [1-9]\d* failed\n$/m);
      t.ok(failed);
    });
}

t.test(
  "programs that a file has started end with it where it is late",
  { skip: process.platform !== "linux" },
  async (t) => {
    const body = `import { spawn } from "node:child_process";
    import { writeFileSync } from "node:fs";
    writeFileSync(new URL("pid", import.meta.url), String(spawn("sleep", ["1000"], { stdio: "ignore" }).pid));
    t.test("blocks", async () => { ${BLOCKS} });`;
    await run(t, { a: body }, 3);
    const pid = readFileSync(join(t.testdirName, "pid"), "utf8");
    // Where nobody asks for its exit status it stays as a zombie.
    const isAlive = () => existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    await until(() => !isAlive(), "its end");
  },
);

t.test("files of one process have a test each, with results and an end of their own", async (t) => {
  const { output, failed } = await run(t, {
    a: 't.teardown(() => { globalThis.ended = true; });\nt.test("one", async (t) => t.ok(true));\nt.ok(1);',
    b: 't.test("two", async (t) => t.equal(globalThis.ended, true));',
  });
  t.match(
    output,
    /^ok {3}a\.ts, 2 assertions.*\nok {3}b\.ts, 1 assertions.*\n0 skipped, 0 todo\n3 passed, 0 failed\n$/,
  );
  t.notOk(failed, output);
});

t.test("a file with a longer timeout than others has it beside others too", async (t) => {
  const slow = "await new Promise((resolve) => setTimeout(resolve, 9000));";
  const body = `t.setTimeout(90_000);\nt.test("slow", { timeout: 90_000 }, async (t) => { ${slow} t.ok(true); });`;
  const { output } = await run(t, { a: body, b: FINE }, 3);
  t.match(output, /^ok {3}a\.ts, 1 assertions.*\nok {3}b\.ts, 1 assertions/);
});
