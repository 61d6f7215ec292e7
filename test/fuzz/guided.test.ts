import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { Coverage } from "../support/coverage.ts";
import { guided, type Target } from "../support/guided.ts";
import { readCorpus } from "./corpus.ts";

type RetryAfter = typeof import("../../src/wire/retry-after.ts");

/**
 * Inputs for each target, without a look at where they lead; or seconds with it, which `npm run fuzz` does for one target as
 * long as one likes.
 */
const INPUTS = Number(process.env["GATEWAY_TEST_FUZZ_INPUTS"] ?? 512);
const SECONDS = Number(process.env["GATEWAY_TEST_FUZZ"] ?? 0);

// Before what it counts in is imported.
const coverage = new Coverage();
t.teardown(() => coverage.close());

t.test("inputs that reach new code are kept and mutated again, until one gives a wrong result", async (t) => {
  const WRONG = '{"a":[';
  let [reached, before] = [0, 0];
  const target: Target = {
    seeds: () => [Buffer.from("0")],
    words: ["[", "]", "{", "}", '"', ":", "a"],
    take(bytes) {
      const wrong = [...WRONG].findIndex((letter, i) => bytes[i] !== letter.charCodeAt(0));
      reached = Math.max(reached, wrong);
      if (wrong < 0) throw new Error(WRONG);
    },
  };
  const fresh = (keep: boolean) => {
    const more = reached - before;
    if (keep) before = reached;
    reached = before;
    return more;
  };
  const { crash, corpus, runs } = guided(target, { until: (runs) => runs > 500_000, coverage: { fresh } });
  t.equal(crash?.bytes.toString(), WRONG, "without unnecessary bytes");
  t.same(corpus.length, WRONG.length - 1);
  t.ok(runs < 100_000, "random inputs alone would take hundreds of millions");
});

t.test("code that runs for the first time is reported once", async (t) => {
  // Modules of its own: others may be in this process already, and have run.
  const { parseRetryAfter } = (await import(`../../src/wire/retry-after.ts?${"own"}`)) as RetryAfter;
  const { HeaderList } = await import("../../src/wire/headers.ts");
  const asked = (name: string) => parseRetryAfter(new HeaderList([name, "5"]));
  coverage.fresh(true);
  asked("x");
  t.ok(coverage.fresh(false) > 0, "is reported");
  asked("x");
  t.ok(coverage.fresh(true) > 0, "and again until it is kept");
  asked("x");
  t.equal(coverage.fresh(true), 0);
  asked("retry-after");
  t.ok(coverage.fresh(true) > 0, "another branch");
});

t.test("CI takes a seed from its commit, prints it, and tries the seed's inputs first", async (t) => {
  const [, seeding = ""] = /^(commit=.*?)\nif ! npm ci/ms.exec(readFileSync(".ci/run", "utf8")) ?? [];
  const seedOf = (env: object) =>
    /^GATEWAY_TEST_SEED=(\d+)\n$/.exec(
      execFileSync("bash", ["-uc", seeding], { env: { ...process.env, ...env }, encoding: "utf8" }),
    )?.[1];
  t.equal(seedOf({ GATEWAY_TEST_SEED: "77" }), "77", "a given seed repeats a run");
  const env = { GATEWAY_TEST_SEED: "", GIT_DIR: join(t.testdir(), "none") };
  t.match(seedOf(env), /^20\d{6}$/, "the date where there is no commit");
  const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
  t.equal(seedOf({ GATEWAY_TEST_SEED: "" }), String(Number.parseInt(commit.slice(0, 7), 16)));
  const args = ["--import", "./src/loader/register.js", "test/fuzz/run.ts", "array"];
  const more = { GATEWAY_TEST_SEED: "77", GATEWAY_TEST_FUZZ_INPUTS: "50" };
  t.match(
    execFileSync(process.execPath, args, { env: { ...process.env, ...more }, encoding: "utf8" }),
    /^array: \d+ inputs in \d+ s from seed 77,/,
  );
});

t.test("a wrong result and a hang fail, with the seed and the command that tries the input again", async (t) => {
  const folder = t.testdir({
    "targets.ts": `const target = (take) => ({ seeds: () => [Buffer.from("a")], words: ["b"], seconds: 1, take });
export const TARGETS = {
  wrong: target((bytes) => { if (bytes.includes("b")) throw new Error("it is wrong"); }),
  endless: target((bytes) => { while (bytes.includes("b")); }),
};`,
  });
  const run = (...args: string[]) => {
    const own = { GATEWAY_TEST_SEED: "7", GATEWAY_TEST_FUZZ_TARGETS: join(folder, "targets.ts"), TMPDIR: folder };
    const env = { ...process.env, ...own };
    return spawnSync(process.execPath, ["--import", "./src/loader/register.js", "test/fuzz/run.ts", ...args], {
      ...{ env, encoding: "utf8" },
    });
  };
  const wrong = run("wrong");
  t.match(wrong, { status: 1, stdout: /^wrong: \d+ inputs in \d+ s from seed 7,/ });
  t.match(wrong.stderr, /^Error: it is wrong\n.*\n"b"\n/s);
  const [, again = ""] = /^npm run fuzz -- wrong (base64:.*)$/m.exec(wrong.stderr) ?? [];
  t.match(run("wrong", again), { status: 1, stdout: /^Error: it is wrong\n/ });
  t.match(run("wrong", "base64:YQ=="), { status: 0, stdout: "It is taken well.\n" });
  const endless = run("endless");
  t.match(endless, { status: null, signal: "SIGKILL" });
  t.match(endless.stderr, /^It hangs, from seed 7: npm run fuzz -- endless base64:\S+\nkept in /);
});

const { TARGETS } = await import("./targets.ts");

t.test("every target runs in CI, for twenty seconds unless another number is given", async (t) => {
  t.same(
    readdirSync("test/fuzz/corpus").sort(),
    Object.keys(TARGETS)
      .map((name) => `${name}.jsonl`)
      .sort(),
  );
  const env = { ...process.env, GATEWAY_TEST_FUZZ_SECONDS: undefined };
  const script = /^fuzz\(\) \{\n.*?^\}\n/ms.exec(readFileSync("test/full.sh", "utf8"))?.[0];
  const shown = (seconds?: string) =>
    execFileSync("bash", ["-c", `npm() { echo "$@"; }; export -f npm\n${script}fuzz`], {
      ...{ env: { ...env, ...(seconds && { GATEWAY_TEST_FUZZ_SECONDS: seconds }) }, encoding: "utf8" },
    });
  const [usual, longer] = [shown(), shown("600")];
  for (const name of Object.keys(TARGETS)) {
    t.match(usual, `run --silent fuzz -- ${name}\n`);
    t.match(longer, `run --silent fuzz -- ${name} 600\n`);
  }
});

for (const [name, target] of Object.entries(TARGETS))
  t.test(`${name}: any bytes are either parsed correctly or refused`, { timeout: 3_600_000 }, async (t) => {
    const began = performance.now();
    const end = performance.now() + SECONDS * 1000;
    const until = (runs: number) => (SECONDS > 0 ? performance.now() > end : runs >= INPUTS);
    const corpus = readCorpus(name);
    const led = SECONDS > 0 ? { coverage, seed: Math.trunc(end) } : {};
    const { runs, crash } = guided(target, { until, corpus, ...led });
    t.equal(crash && `${crash.error.stack}\n${JSON.stringify(crash.bytes.toString("latin1"))}`, undefined);
    t.comment(`${runs} inputs in ${Math.round(performance.now() - began)} ms`);
  });
