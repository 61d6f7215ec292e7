import { spawnSync } from "node:child_process";
import t from "tap";
import { gathered } from "./gathered.ts";

/** Returns the TAP output of tests with these bodies, run in a child process. */
function run(bodies: readonly string[]): string[] {
  const file = (name: string) => new URL(name, import.meta.url).href;
  const tests = bodies.map((body, i) => `gathered(t, "test ${i}", (t) => { ${body} });`);
  const script = `import t from "tap"; import { gathered } from ${JSON.stringify(file("gathered.ts"))}; ${tests.join("\n")}`;
  const node = ["--import", file("../../src/loader/register.js"), "--input-type=module-typescript", "-e", script];
  return spawnSync(process.execPath, node, { encoding: "utf8" }).stdout.split("# Subtest: ").slice(1);
}

gathered(t, "checks that hold are one assertion", async (t) => {
  for (let i = 0; i < 100; i++) {
    t.ok(true);
    t.equal(i, i);
    t.not(i, i + 1);
    t.same({ i }, { i });
    t.strictSame({ i }, { i });
    t.match({ i, more: 1 }, { i: Number });
    t.notMatch("a", /b/);
    t.notOk(false);
    t.throws(() => JSON.parse("{"));
    t.throws(() => JSON.parse("{"), { name: "SyntaxError" });
    t.throws(() => JSON.parse("{"), /JSON/);
    t.doesNotThrow(() => i);
  }
});

const FAILING = {
  first: "t.ok(0, 'first');",
  second: "t.notOk(1, 'second');",
  third: "t.equal('a', 'b', 'third');",
  fourth: "t.not(1, 1, 'fourth');",
  fifth: "t.same({ a: 1 }, { a: 2 }, 'fifth');",
  sixth: "t.strictSame({ a: 1 }, { a: '1' }, 'sixth');",
  seventh: "t.match({ a: 1 }, { a: String }, 'seventh');",
  eighth: "t.notMatch('b', /b/, 'eighth');",
  ninth: "t.throws(() => 5, 'ninth');",
  tenth: "t.throws(() => { throw new Error('a'); }, /b/, 'tenth');",
  eleventh: "t.doesNotThrow(() => { throw new Error('a'); }, 'eleventh');",
};

t.test(
  "a failed case is listed with its message, among those that passed; a run without cases fails too",
  async (t) => {
    const output = run([...Object.values(FAILING).map((check) => `t.ok(true); ${check} t.ok(true);`), ""]);
    for (const [i, word] of Object.keys(FAILING).entries()) {
      t.match(output[i], /not ok 1 - 3 checks/, word);
      t.match(output[i], word);
      t.match(output[i], "failed: 1", word);
    }
    t.match(output.at(-1), /not ok 1 - there is no case to check/);
  },
);
