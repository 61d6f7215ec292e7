import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import t from "tap";
import {
  argumentErrorText,
  COMMAND,
  commandAt,
  parseOption,
  parseVerbArguments,
  printFailure,
  wrongCommand,
} from "../../src/cli/verb.ts";
import { UsageError } from "../../src/text/format-error.ts";

t.test("hints name the command that works for this installation", async (t) => {
  t.equal(commandAt("file:///srv/app/node_modules/model-gateway/src/cli/verb.ts"), "npx model-gateway");
  t.equal(commandAt("file:///home/me/model-gateway/src/cli/verb.ts"), "npm start --");
  t.equal(COMMAND, "npm start --");
  const [root, path] = [t.testdir({ bin: { "model-gateway": "" }, src: { cli: {} }, path: {} }), t.testdirName];
  const file = pathToFileURL(join(root, "src/cli/verb.ts")).href;
  t.equal(commandAt(file, `/usr/bin:${join(path, "path")}`), "npm start --");
  symlinkSync(join(root, "bin/model-gateway"), join(path, "path/model-gateway"));
  t.equal(commandAt(file, `/usr/bin:${join(path, "path")}`), "model-gateway", "it is on the PATH, as in the image");
  const prefix = t.testdir({ lib: { node_modules: { "model-gateway": { bin: { "model-gateway": "" } } } }, bin: {} });
  const installed = join(prefix, "lib/node_modules/model-gateway");
  symlinkSync(join(installed, "bin/model-gateway"), join(prefix, "bin/model-gateway"));
  t.equal(
    commandAt(pathToFileURL(join(installed, "src/cli/verb.ts")).href, "/usr/bin"),
    join(prefix, "bin/model-gateway"),
    "it was installed with a prefix that is not on the PATH",
  );
});

t.test("options and arguments of a verb are parsed, and an unknown one is a usage error that names it", async (t) => {
  const options = { json: { type: "boolean" }, by: { type: "string" } } as const;
  const read = parseVerbArguments(["one", "--json", "--by", "day"], options, 1);
  t.same([read.values.json, read.values.by, read.positionals], [true, "day", ["one"]]);
  for (const [args, says] of [
    [["--jsno"], /^Unknown option '--jsno', did you mean --json\?$/],
    [["--nothing"], /^Unknown option '--nothing'\.$/],
    [["one", "two"], /"two" is one word too many/],
    [["--by"], /^--by needs a value\.$/],
    [["--by", "-5"], /^--by needs a value \(one that begins with - is written --by=-…\)\.$/],
    [["--json=1"], /^--json takes no value\.$/],
    [["--by", "day", "--json", "--by=key"], /^--by is given twice\.$/],
  ] as const)
    t.throws(() => parseVerbArguments(args, options, 1), { constructor: UsageError, message: says });
});

t.test("an option that takes several values may be given several times", async (t) => {
  const options = { tag: { type: "string", multiple: true }, json: { type: "boolean" } } as const;
  t.same(parseVerbArguments(["--tag", "a", "--json", "--tag", "b", "--json"], options).values.tag, ["a", "b"]);
});

t.test("a wrong value is a usage error that names the option; other errors are printed without a stack", async (t) => {
  t.equal(
    parseOption("--n", () => 5),
    5,
  );
  const wrong = () => {
    throw new RangeError("take 1 to 9");
  };
  t.throws(() => parseOption("--n", wrong), { constructor: UsageError, message: "--n: take 1 to 9." });
  const lines: string[] = [];
  const err = (line: string) => lines.push(line);
  t.equal(printFailure(new TypeError("the disk is full"), { err }), 1);
  t.throws(() => printFailure(new UsageError("no"), { err }), { constructor: UsageError, message: "no" });
  t.same(lines, ["the disk is full"]);
});

t.test("an unknown command is a usage error with the similar one, or all of them", (t) => {
  const told = (word?: string) => wrongCommand("fruit", word, ["peel", "eat"]).message;
  t.equal(told(), "fruit needs a command: peel, eat.");
  t.equal(told("pele"), 'fruit has no command "pele", did you mean "peel"?');
  t.equal(told("throw"), 'fruit has no command "throw"; it has peel, eat.');
  t.end();
});

t.test("an unknown argument prints the lines of the usage that it concerns, and where the rest is", async (t) => {
  const one = `usage: ${COMMAND} a FILE [--json]\n                 [--more]\n\nPages of text.`;
  t.equal(
    argumentErrorText("No.", one, ["x"]),
    `No.\n\nusage: ${COMMAND} a FILE [--json]\n                 [--more]\nsee: ${COMMAND} a --help`,
  );
  const many = `usage: ${COMMAND} b make NAME\n       ${COMMAND} b on|off NAME\n\nPages of text.`;
  const told = (...args: string[]) => argumentErrorText("No.", many, args).split("\n").slice(2, -1);
  t.same(told("--x", "off"), [`usage: ${COMMAND} b on|off NAME`]);
  t.same(told("make", "on"), [`usage: ${COMMAND} b make NAME`]);
  t.same(told("mkae"), [`usage: ${COMMAND} b make NAME`, `       ${COMMAND} b on|off NAME`]);
});
