// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import t from "tap";
import { YamlSource } from "../../src/config/positions.ts";
import { type Finding, formatProblem } from "../../src/config/problems.ts";

const told = (yaml: string, finding: Finding): string => formatProblem(new YamlSource("g.yaml", yaml).locate(finding));
const syntax = (yaml: string): string => new YamlSource("g.yaml", yaml).problems.map(formatProblem).join("\n");

t.test("a value is shown with the line before and a caret for each of its characters", async (t) => {
  t.equal(
    told("a:\n  b: [x, wrong]\nc: 1\n", { path: ["a", "b", 1], message: "no" }),
    `g.yaml:2:10 error: no
  1 | a:
> 2 |   b: [x, wrong]
    |          ^^^^^`,
  );
});

t.test("a name is shown on request, if its value is a collection, and if it has no value", async (t) => {
  const yaml = "a:\n  list: [1]\n  none:\n  text: x\n";
  for (const [path, place] of [
    ["list", "2:3"],
    ["none", "3:3"],
    ["text", "4:9"],
  ] as const)
    t.match(told(yaml, { path: ["a", path], message: "no" }), `g.yaml:${place} error`);
  t.match(told(yaml, { path: ["a", "text"], key: true, message: "no" }), "g.yaml:4:3 error");
});

t.test("a missing entry is shown at the nearest position above it", async (t) => {
  t.match(told("a:\n  b: 1\n", { path: ["a", "gone", "x"], message: "no" }), "g.yaml:1:1 error: no\n> 1 | a:\n    | ^");
  t.match(told("\na: [1]\n", { path: [], message: "no" }), "g.yaml:1:1 error: no");
  t.match(told("", { path: ["a"], message: "no" }), "g.yaml:1:1 error: no");
});

t.test("a part of a text is shown inside quotes too, but not across escapes", async (t) => {
  const part = { from: 0, length: 3 };
  t.match(told("a: abc:d", { path: ["a"], part, message: "no" }), /:1:4 .*\n.*\n {4}\| {4}\^{3}$/);
  t.match(told('a: "abc:d"', { path: ["a"], part, message: "no" }), /:1:5 .*\n.*\n {4}\| {5}\^{3}$/);
  t.match(told('a: "\\x61bc:d"', { path: ["a"], part, message: "no" }), /:1:4 .*\n.*\n {4}\| {4}\^{10}$/);
});

t.test("a position is found through aliases and merged maps, at the original text", async (t) => {
  const yaml = `x-base: &base { idle: 1s, deep: { far: 2 } }
x-more: &more { <<: *base, total: 5m }
one: *base
two: { <<: *more, own: 3 }
three: { <<: [*more, { other: 4 }] }
four: { <<: *base, idle: 9s }
`;
  for (const [path, place] of [
    [["one", "idle"], "1:23"],
    [["one", "deep", "far"], "1:40"],
    [["two", "idle"], "1:23"],
    [["two", "total"], "2:35"],
    [["two", "own"], "4:24"],
    [["three", "other"], "5:31"],
    [["three", "deep", "far"], "1:40"],
    [["four", "idle"], "6:26"],
  ] as const)
    t.match(told(yaml, { path, message: "no" }), `g.yaml:${place} error`, path.join("."));
  t.same((new YamlSource("g.yaml", yaml).values as Record<string, unknown>)["four"], { idle: "9s", deep: { far: 2 } });
});

t.test("Windows line ends, tabs and a byte order mark do not shift the caret", async (t) => {
  t.equal(
    told("\uFEFFa: 1\r\nb:\tx\r\n", { path: ["b"], message: "no" }),
    "g.yaml:2:4 error: no\n  1 | a: 1\n> 2 | b:\tx\n    |   \t^",
  );
});

t.test("of long lines the part near the position is shown, and masking a long word takes no time", async (t) => {
  const long = "x".repeat(20_000);
  t.equal(
    told(`n: 1\na: { b: 1, c: ${long} }\n`, { path: ["a", "b"], message: "no" }),
    `g.yaml:2:9 error: no\n  1 | n: 1\n> 2 | a: { b: 1, c: ${"*".repeat(146)}…\n    |         ^`,
  );
  const [, , before, line, carets] =
    told(`n: 1\na: { c: "${"y ".repeat(20_000)}", b: 1, d: ${long} }\n`, {
      path: ["a", "b"],
      message: "no",
    }).match(/^(.*)\n(.*)\n(.*)\n(.*)$/) ?? [];
  t.equal(before, "  1 |");
  t.match(line, /^> 2 \| …[* ]+", b: 1, d: \*+…$/);
  t.equal(carets?.indexOf("^"), line?.indexOf("1, d"));
  t.match(told(`a: ${"y".repeat(1_000_000)}`, { path: ["a"], message: "no" }), /… *\n +\| +\^+$/);
});

t.test("line numbers of several digits stay aligned", async (t) => {
  t.equal(
    told(`${"\n".repeat(9)}a: x`, { path: ["a"], message: "no" }),
    "g.yaml:10:4 error: no\n   9 |\n> 10 | a: x\n     |    ^",
  );
});

const TAG =
  "tags (!name, !!name) mean nothing here; remove it: a variable is written $NAME, the text of a file $file:PATH";

t.test("of invalid syntax the first mistake is reported, in plain words", async (t) => {
  for (const [yaml, place, message] of [
    ["a: 1\n\tb: 2\n", "2:1", "a tab cannot indent; use spaces"],
    [
      "a:\n  b: [1\nc: 2\nd: ]\n",
      "3:1",
      "the indentation does not fit the lines around it, or a bracket before it is not closed",
    ],
    ["a: 1\n---\nb: 2\n", "2:1", "a second document starts here; remove the ---"],
    ["a: @x\n", "1:4", "a value cannot start with this character; put the value in quotes"],
    [
      "a: b: c\n",
      "1:4",
      'a value cannot hold another "name: value"; put the value in quotes, or the name on a line of its own',
    ],
    [
      "a: { b: c: }\n",
      "1:9",
      "within brackets a value that ends with a colon needs quotes, and a list or a map needs brackets too",
    ],
    ["a: 1\nb\n", "2:1", 'this line has no ": ": write "name: value"'],
    ["a:1\nb: 2\n", "1:1", 'a name must be followed by ": " on its own line'],
    ["a: !secret x\n", "1:4", TAG],
    ["a: !!set { b }\n", "1:4", TAG],
    ["a:\n  - b: !!omap # a comment\n      - c: 1\n", "2:8", TAG],
    ["a: &here !!binary aGk=\n", "1:10", TAG],
    ["a: !!timestamp 2026-01-01\n", "1:4", TAG],
    ["a: !!pairs [b: 1]\n", "1:4", TAG],
    ["a: !<tag:example.org,2026:x> b\n", "1:4", TAG],
    ["a: !!int b\n", "1:4", "this value is not what its tag says; remove the tag"],
    ["a: !!seq { b: 1 }\n", "1:4", "this value is not what its tag says; remove the tag"],
    ["? [a, b]\n: c\n", "1:3", "a name must be a text, not a list, a map or an alias"],
    ["a: {{ NAME }}\n", "1:5", "{{ }} is not filled in here; a variable is written $NAME"],
    ["a: { { b: 1 }: c }\n", "1:6", "a name must be a text, not a list, a map or an alias"],
    [
      "%YAML 1.1\n---\na: off\n",
      "1:1",
      "files are read as YAML 1.2, in which on, off, yes and no are texts; remove this line",
    ],
    ["a: ]\n", "1:4", "not expected here; a bracket or quote before it may be missing or one too many"],
    ['a: "b\n', "1:4", 'missing closing "'],
    ["b: &near 1\na: *nera\n", "2:4", 'unknown anchor "nera", did you mean "near"?'],
    ["<<: 5\n", "1:1", "<< takes the alias of a map, or a list of such aliases"],
  ] as const) {
    const source = new YamlSource("g.yaml", yaml);
    t.equal(source.values, undefined);
    t.same(
      source.problems.map((problem) => `${problem.line}:${problem.column} ${problem.message}`),
      [`${place} ${message}`],
      yaml,
    );
  }
});

t.test("tags of YAML's own types say what a value is, and names are texts as they are written", async (t) => {
  const source = new YamlSource(
    "g.yaml",
    "%YAML 1.2\n---\n4.10: !!str 5\n0x1f: !!int 5\n~: ! yes\ntrue: !!map { a: 1 }\n",
  );
  t.same(source.problems, []);
  t.same(source.values, { "4.10": "5", "0x1f": 5, "~": "yes", true: { a: 1 } });
  t.match(source.position({ path: ["4.10"], key: true }), { line: 3, column: 1 });
});

t.test("every duplicate name is reported, and parsing continues", async (t) => {
  const source = new YamlSource("g.yaml", "a: 1\na: 2\nb: { c: 1, c: 2 }\n");
  t.same(source.values, { a: 2, b: { c: 2 } });
  t.same(
    source.problems.map(({ line, column, message }) => [line, column, message]),
    [
      [2, 1, "this name is defined twice here; keep one"],
      [3, 12, "this name is defined twice here; keep one"],
    ],
  );
});

t.test("a document that grows without bound when aliases are resolved is refused", async (t) => {
  const bomb = Array.from(
    { length: 12 },
    (_, i) => `a${i}: &a${i} [${i === 0 ? "1, 1" : `*a${i - 1}, *a${i - 1}`}]`,
  ).join("\n");
  t.match(syntax(bomb), /^g\.yaml:12:\d+ error: aliases .*write out/);
  t.match(syntax(`a: ${"[".repeat(20_000)}${"]".repeat(20_000)}`), /nested too deeply/);
});

t.test("secrets in an excerpt are masked, in any form, and keep their width", async (t) => {
  for (const line of [
    "credential: hunter2-hunter2",
    "credential: 'hunter2-hunter2'",
    'key: "${NAME:-hunter2-hunter2}"',
    "key: &anchor hunter2-hunter2",
    "x-any: hunter2-hunter2",
    "credential: { file: hunter2-hunter2 }",
    "keys: [hunter2-hunter2]",
    "credentail: hunter2-hunter2",
    "url: https://hunter2-hunter2@host/v1",
    "url: https://host/v1?k=hunter2-hunter2",
    "credential: a: hunter2-hunter2",
    "credential:hunter2-hunter2",
    "credential = hunter2-hunter2",
    "credential: [hunter2-hunter2",
  ]) {
    const source = new YamlSource("g.yaml", line);
    const { frame } = source.problems[0] ?? source.locate({ path: [line.split(":")[0] as string], message: "" });
    t.notMatch(frame, "hunter2", line);
    t.equal(frame.split("\n")[0]?.length, `> 1 | ${line}`.length, line);
  }
});

t.test("a secret that a message repeats is masked there too", async (t) => {
  const source = new YamlSource("g.yaml", "credential: hunter2-hunter2\n");
  t.equal(source.locate({ path: [], message: "found hunter2-hunter2" }).message, "found ***************");
});

t.test("a literal secret behind an alias is masked", async (t) => {
  const source = new YamlSource("g.yaml", "models: { a: &a hunter2-hunter2 }\ncredential: *a\n");
  t.notMatch(source.locate({ path: ["models", "a"], message: "no" }).frame, "hunter2");
});

t.test("references to secrets are shown", async (t) => {
  t.match(told("credential: $NAME\n", { path: ["credential"], message: "no" }), "| credential: $NAME\n");
  t.match(told('credential: "${NAME}"\n', { path: ["credential"], message: "no" }), '| credential: "${NAME}"\n');
});

t.test("texts of a plugin's options are masked until its schema is known", async (t) => {
  const source = new YamlSource("g.yaml", "plugins: { p: { mode: report, dsn: short } }\n");
  const mode = { path: ["plugins", "p", "mode"], message: "no" };
  t.match(source.locate(mode).frame, "mode: ******, dsn: *****");
  source.setEnumeratedValues((path) => (path.at(-1) === "mode" ? ["report"] : []));
  t.match(source.locate(mode).frame, "mode: report, dsn: *****");
  t.equal(source.masked, "plugins: { p: { mode: report, dsn: ***** } }\n");
  t.same(source.position({ path: mode.path }), { file: "g.yaml", line: 1, column: 23 });
});

t.test("a reference whose braces are parsed as a map has a message of its own", async (t) => {
  const [problem] = new YamlSource("g.yaml", "providers: { d: { credential: ${NAME}, url: x } }\n").problems;
  t.match(problem, { line: 1, message: 'between { } write a reference in quotes: "${NAME}"' });
  const [other] = new YamlSource("g.yaml", 'providers: { d: { credential: "${NAME}", url: ] } }\n').problems;
  t.match(other?.message, /or a bracket before it is not closed$/);
});
