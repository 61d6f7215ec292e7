import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { runHere } from "../support/command-line.ts";

const folder = mkdtempSync(join(tmpdir(), "gateway-command-line-"));
t.teardown(() => rmSync(folder, { recursive: true }));
const run = (args: readonly string[]) => runHere(args, folder);

t.test("the help of every verb ends with its exit codes, and every verb prints the version", async (t) => {
  for (const verb of ["routes", "models", "keys", "usage", "tail", "schema", "plugin", "store", "groups", "reload"])
    t.match(await run([verb, "--help"]), { status: 0, out: /^usage: [\s\S]*Exit codes: 0 / }, verb);
  for (const args of [["--version"], ["check", "--version"]])
    t.match(await run(args), { status: 0, out: /^\d+\.\d+\.\d+\n$/ }, args.join(" "));
});

t.test("--config with a missing file is a usage error, for the default would be another file", async (t) => {
  for (const args of [
    ["run", "--config", ""],
    ["run", "--config="],
    ["check", "--config"],
    ["--config", "--json"],
  ])
    t.match(await run(args), { status: 2, out: "", err: /^--config needs a file/ }, args.join(" "));
});

t.test("a verb's --help does nothing else, and an unknown argument is exit code 2 with that help", async (t) => {
  // What each verb says of itself is tried in cli/verbs.test.ts; these tell of a mistake in each of the ways that there are.
  for (const verb of ["run", "check", "routes", "store"]) {
    t.match(
      await run([verb, "--help"]),
      { status: 0, err: "", out: new RegExp(`^usage: npm start -- ${verb}\\b`) },
      verb,
    );
    t.match(
      await run([verb, "--no-such-option"]),
      { status: 2, out: "", err: new RegExp(`usage: .*${verb}`, "s") },
      verb,
    );
  }
});

t.test("--help after a verb prints that verb's help, and --version the version", async (t) => {
  t.match(await run(["keys", "create", "--help"]), {
    status: 0,
    out: /^usage: npm start -- keys create NAME .*--expires WHEN/s,
  });
  t.match(await run(["check", "-h"]), { status: 0, out: /^usage: npm start -- check \[FILE\]/ });
  t.match(await run(["--help"]), { status: 0, out: /VERB …/ });
  t.match(await run(["--version"]), { status: 0, out: /^\d+\.\d+\.\d+\n$/ });
});
