import { join } from "node:path";
import t from "tap";
import { runCheck } from "../../src/cli/check.ts";
import type { Terminal } from "../../src/cli/verb.ts";
import type { Problem } from "../../src/config/problems.ts";
import type { PluginProblem } from "../../src/loader/problems.ts";
import { UsageError } from "../../src/text/format-error.ts";
import { extensions, MINIMAL_CONFIG } from "../config/fixture.ts";
import { captured } from "../support/terminal.ts";

/** Runs the verb in a folder with these files. */
function check(
  t: { testdir(files: Record<string, string>): string },
  files: Record<string, string>,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  wrong: PluginProblem[] = [],
  doubts: Problem[] = [],
  file = "gateway.yaml",
) {
  const folder = t.testdir(files);
  const run = (io: Terminal) =>
    runCheck(
      args,
      io,
      join(folder, file),
      extensions,
      async () => wrong,
      async () => doubts,
    );
  return captured(run, { env, folder });
}

const FULL = `providers:
  demo: { url: "demo:" }
  a: { url: https://a/v1, credential: $A_KEY, protocol: gemini }
  b: { url: https://b/v1, credential: $B_KEY, protocol: gemini }
models: { echo: { targets: [demo:echo] } }
keys: { ci: { key: $CI_KEY }, two: { hash: ${"ab".repeat(32)} } }
`;

t.test("a valid file is summed up in one line", async (t) => {
  const { code, out, err } = await check(t, { "gateway.yaml": MINIMAL_CONFIG }, []);
  t.equal(out, "gateway.yaml: ok, 1 provider, 1 model, 0 keys, 9 paths");
  t.equal(err, "");
  t.equal(code, 0);
});

t.test("what is disabled is listed with the reason", async (t) => {
  const { code, out } = await check(t, { "other.yaml": FULL }, [], {}, [], [], "other.yaml");
  t.equal(
    out,
    "other.yaml: ok, 3 providers (2 off: a, A_KEY is not set; b, B_KEY is not set), 1 model, 2 keys (1 off: ci, CI_KEY is not set), 9 paths",
  );
  t.equal(code, 0);
});

t.test("a probable mistake is reported, and does not fail the check", async (t) => {
  const { code, out, err } = await check(t, { "gateway.yaml": `${FULL}plugins: { region: { region: eu } }\n` }, []);
  t.equal(code, 0);
  t.match(out, /^gateway\.yaml: ok, /);
  t.match(err, /gateway\.yaml:7:12 warning: plugin "region" is in no chain.*> 7 \| plugins: /s);
  t.notMatch(err, /is off/, "the summary includes it");
});

t.test("a setting worth checking is reported with its position, and does not fail the check", async (t) => {
  const doubt: Problem = {
    ...{ file: "gateway.yaml", line: 2, column: 3, message: "no price is known", frame: "", severity: "warning" },
  };
  const told = await check(t, { "gateway.yaml": MINIMAL_CONFIG }, [], {}, [], [doubt]);
  t.match(told, { code: 0, out: /: ok, /, err: /^gateway\.yaml:2:3 warning: no price is known/ });
  const { out } = await check(t, { "gateway.yaml": MINIMAL_CONFIG }, ["--json"], {}, [], [doubt]);
  t.match(JSON.parse(out), { ok: true, problems: [{ message: "no price is known" }] });
});

t.test("an invalid file that gateway.yaml refers to fails, with its position", async (t) => {
  const wrong: Problem = {
    ...{ file: "gateway.yaml", line: 2, column: 3, message: "counted twice", frame: "", severity: "error" },
  };
  const told = await check(t, { "gateway.yaml": MINIMAL_CONFIG }, [], {}, [], [wrong]);
  t.match(told, { code: 1, out: "", err: /^gateway\.yaml:2:3 error: counted twice.*1 problem$/s });
});

t.test("an invalid file is reported with its problems and their number", async (t) => {
  const { code, out, err } = await check(t, { "gateway.yaml": `${MINIMAL_CONFIG}drain: 5\nbodi: {}\n` }, []);
  t.equal(code, 1);
  t.equal(out, "");
  t.equal(
    err.replaceAll(/^\S*gateway\.yaml:(?=\d)/gm, "gateway.yaml:"),
    `gateway.yaml:3:8 error: 5 is not a duration; write it like 90s, 500ms, 5m, 1h or off
  2 | models: { echo: { targets: [demo:echo] } }
> 3 | drain: 5
    |        ^

gateway.yaml:4:1 error: unknown key "bodi", did you mean "body"?
  3 | drain: 5
> 4 | bodi: {}
    | ^^^^

gateway.yaml: 2 problems`,
  );
});

t.test("with --json the result is JSON", async (t) => {
  const wrong = await check(t, { "gateway.yaml": `${MINIMAL_CONFIG}drain: 5\n` }, ["--json"]);
  t.equal(wrong.code, 1);
  t.match(JSON.parse(wrong.out), {
    ok: false,
    problems: [{ line: 3, column: 8, severity: "error", message: /not a duration/, frame: /> 3 \| drain: 5/ }],
  });
  const right = await check(t, { "gateway.yaml": FULL }, ["--json"], {
    A_KEY: "one-0123456789",
    B_KEY: "two-0123456789",
  });
  t.equal(right.code, 0);
  t.match(JSON.parse(right.out), {
    ok: true,
    problems: [{ severity: "warning", message: 'key "ci" is off: CI_KEY is not set' }],
  });
  t.equal(JSON.parse(right.out).problems.length, 1);
});

t.test("plugins that cannot be built are problems too, at their own places", async (t) => {
  const wrong = [
    { file: "/p/a.ts", line: 3, column: 5, message: "one" },
    { file: "/p/b.ts", message: "two" },
  ];
  const { code, err } = await check(t, { "gateway.yaml": MINIMAL_CONFIG }, [], {}, wrong);
  t.equal(code, 1);
  t.equal(err, "/p/a.ts:3:5 error: one\n\n/p/b.ts:1:1 error: two\n\ngateway.yaml: 2 problems");
});

t.test("a wrong command line, or a missing file, is a usage error", async (t) => {
  const files = { "gateway.yaml": MINIMAL_CONFIG };
  for (const [args, message] of [
    [["--jsn"], /Unknown option '--jsn'/],
    [["b"], /"b" is one word too many/],
  ] as const)
    await t.rejects(check(t, files, [...args]), { constructor: UsageError, message });
  const gone = { constructor: UsageError, message: "there is no file gone.yaml" };
  await t.rejects(check(t, files, [], {}, [], [], "gone.yaml"), gone);
});
