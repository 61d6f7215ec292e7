import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { runHere } from "./support/command-line.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "gateway-main-"));
t.teardown(() => rmSync(folder, { recursive: true }));
const YAML =
  'providers: { demo: { url: "demo:" } }\nmodels: { echo: { targets: [demo:echo] } }\nstore: { ledger: "sqlite:./gateway.db" }\n';
writeFileSync(join(folder, "gateway.yaml"), YAML);
writeFileSync(join(folder, "wrong.yaml"), YAML.replace("providers", "provders"));

const LOADED = ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`];

/** Runs a command line in a process of its own. */
function spawned(args: string[], command = process.execPath) {
  const before = command === process.execPath ? LOADED : [];
  const { stdout, stderr, status } = spawnSync(command, [...before, ...args], {
    cwd: folder,
    encoding: "utf8",
    env: { PATH: process.env["PATH"] },
  });
  return { out: stdout, err: stderr, status };
}

/** Runs one in this process, where the test is about words and exit codes: but not `run`, which takes the process's signals. */
const run = async (args: string[], cwd = folder) => (args[0] === "run" ? spawned(args) : runHere(args, cwd));
// Paths in messages are relative to it.
process.chdir(folder);
t.teardown(() => process.chdir(ROOT));
/** Counts a signal's handlers but for tap's, which it adds when it first writes: their source names the package, signal-exit. */
const handlersOf = (signal: string) =>
  process.listeners(signal as NodeJS.Signals).filter((handler) => !String(handler).includes("signal-exit")).length;
const signalHandlers = () => ["SIGHUP", "SIGUSR1", "SIGUSR2"].map(handlersOf);
const handlersBefore = signalHandlers();

t.test("every verb works, and help lists them all", async (t) => {
  t.match(spawned(["--version"]), { status: 0, out: /^\d+\.\d+\.\d+\n$/ });
  const help = spawned(["help"]);
  t.equal(help.status, 0);
  for (const verb of ["run", "check", "schema", "keys create", "groups", "usage", "store backup"])
    t.match(help.out, verb);
  t.match(spawned(["check"]), { status: 0, out: /ok, 1 provider/ });
  t.match(spawned(["check", "wrong.yaml"]), { status: 1 });
  t.equal((JSON.parse((await run(["schema"])).out) as { type: string }).type, "object");
  const created = spawned(["keys", "create", "ci"]);
  t.match(created, { status: 0, out: /^gw_\S+\n/ });
  t.match(await run(["keys", "list"]), { status: 0, out: /ci/ });
  t.match(await run(["usage"]), { status: 0, out: /No requests/ });
  t.match(await run(["groups"]), { status: 0, out: /No groups/ });
  t.match(await run(["store", "verify"]), { status: 0, out: /no errors/ });
});

t.test("output for a full disk is an error of one sentence, and a key for it is revoked", async (t) => {
  const full = openSync("/dev/full", "w");
  t.teardown(() => closeSync(full));
  const write = (...args: string[]) =>
    spawnSync(process.execPath, [...LOADED, ...args], {
      ...{ cwd: folder, encoding: "utf8", stdio: ["ignore", full, "pipe"] },
      env: { PATH: process.env["PATH"] },
    });
  t.match(write("routes"), { status: 1, stderr: /^Standard output cannot be written: ENOSPC[^\n]*\n$/ });
  const { status, stderr } = write("keys", "create", "unread");
  t.match(
    { status, stderr },
    { status: 1, stderr: /^The new key cannot be printed, so it was revoked at once: ENOSPC[^\n]*\n$/ },
  );
  t.match((await run(["keys", "list"])).out, /unread .* revoked /);
});

t.test("a key for an output that nobody can read, closed or the null device, is revoked", async (t) => {
  for (const [name, output] of [
    ["closed", ">&-"],
    ["thrown", ">/dev/null"],
  ] as const) {
    const { status, stderr } = spawnSync(
      "/bin/sh",
      ["-c", `exec "$0" "$@" ${output}`, process.execPath, ...LOADED, "keys", "create", name],
      {
        ...{ cwd: folder, encoding: "utf8", env: { PATH: process.env["PATH"] } },
      },
    );
    const told = "The new key cannot be printed, so it was revoked at once: standard output is closed, or /dev/null.\n";
    t.same({ status, stderr }, { status: 1, stderr: told }, output);
    t.match((await run(["keys", "list"])).out, new RegExp(`${name} .* revoked `));
  }
});

t.test("without a gateway.yaml of its own a folder uses the bundled one, and keeps its own data", async (t) => {
  const empty = join(folder, "empty");
  mkdirSync(empty);
  t.match(await run(["keys", "create", "here"], empty), { status: 0, out: /^gw_/ });
  t.ok(existsSync(join(empty, "data/gateway.db")));
});

t.test("control characters in another program's file do not reach the terminal, in text and in JSON", async (t) => {
  const name = "gpt\u001b[31m\u009b7m";
  const model = { model_name: name, litellm_params: { model: "openai/gpt-4o", weight: 2 } };
  const rules = { fallbacks: [{ [name]: ["no\rsuch"] }], [`odd\u001b]0;title\u0007`]: 1 };
  writeFileSync(join(folder, "litellm.json"), JSON.stringify({ model_list: [model], router_settings: rules }));
  for (const more of [[], ["--json"]]) {
    const { out, err, status } = spawned(["init", "--from", "litellm", "litellm.json", "--out", "-", ...more]);
    t.equal(status, 0, err);
    t.match(out + err, "odd\\u001b]0;title\\u0007");
    t.notMatch(out + err, /[^\n\P{Cc}]/u);
  }
});

t.test("an unknown verb is a usage error that lists the verbs", async (t) => {
  t.match(spawned(["serve"]), { status: 2, err: /unknown verb "serve"\nverbs: run .*check/ });
  t.match(await run(["chekc"]), { status: 2, out: "", err: /unknown verb "chekc", did you mean "check"\?/ });
  t.match(await run(["version"]), { status: 2, err: /did you mean "--version"\?/ });
  t.match(spawned(["check", ""]), { status: 2, err: /^FILE is empty; / });
});

t.test("--config takes another file for every verb", async (t) => {
  t.match(await run(["routes", "--config", "wrong.yaml"]), { status: 1, err: /provders.*did you mean "providers"/s });
  t.match(await run(["keys", "list", "--config", "wrong.yaml"]), {
    status: 0,
    err: /wrong\.yaml has .*mistakes?, see:/,
  });
  t.match(await run(["keys", "list", "--config=gateway.yaml"]), { status: 0 });
});

t.test("with --json a wrong gateway.yaml is reported as check reports it, by every verb that reads it", async (t) => {
  const checked = await run(["check", "wrong.yaml", "--json"]);
  t.match(JSON.parse(checked.out), { ok: false, problems: [{ line: 1, column: 1, severity: "error" }] });
  for (const verb of ["routes", "explain", "run"]) {
    const { out, err, status } = await run([
      verb,
      "--json",
      "--config",
      "wrong.yaml",
      ...(verb === "explain" ? ["/v1/messages"] : []),
    ]);
    t.same({ out, err, status }, { ...checked, err: "" }, verb);
  }
  t.match(await run(["routes", "--config", "wrong.yaml"]), { status: 1, out: "", err: /^wrong.yaml:1:1 error: / });
});

t.test("check and run take their file as an argument or by --config, but not both", async (t) => {
  for (const verb of ["check", "run"])
    for (const args of [["wrong.yaml"], ["--config", "wrong.yaml"]])
      t.match(
        await run([verb, ...args]),
        { status: 1, err: /^wrong.yaml:1:1 error: .*did you mean "providers"/ },
        verb,
      );
  for (const args of [
    ["check", "gateway.yaml", "--config", "wrong.yaml"],
    ["check", "--config=wrong.yaml", "--json", "gateway.yaml"],
    ["run", "gateway.yaml", "--config", "wrong.yaml"],
  ])
    t.match(await run(args), {
      status: 2,
      out: "",
      err: /^gateway.yaml and --config name one file each; leave one out\./,
    });
});

t.test("an unusable store is reported in one sentence, by every verb", async (t) => {
  writeFileSync(join(folder, "no.db"), "this is no database, but a text that is long enough for a header".repeat(20));
  writeFileSync(join(folder, "text.yaml"), YAML.replace("gateway.db", "no.db").replace(/^/, "listen: 127.0.0.1:0\n"));
  writeFileSync(join(folder, "below.yaml"), YAML.replace("gateway.db", "no.db/below.db"));
  for (const args of [["run"], ["keys", "list"], ["usage"]])
    for (const file of ["text.yaml", "below.yaml"])
      t.match(
        await run([...args, "--config", file]),
        { status: 1, out: "", err: /^The store \S+ cannot be used: [^\n]+\n$/ },
        `${args.join(" ")} ${file}`,
      );
});

t.test("check suggests the plugins beside the file, whatever the working directory", async (t) => {
  const other = join(folder, "other");
  mkdirSync(join(other, "plugins"), { recursive: true });
  mkdirSync(join(folder, "plugins"));
  writeFileSync(join(other, "plugins/theirs.ts"), "export default class Theirs {}\n");
  writeFileSync(join(folder, "plugins/own.ts"), "export default class Own {}\n");
  const chained = (name: string) => `${YAML}chains: { llm: [sse, auth, ${name}, models, rewrite] }\n`;
  writeFileSync(join(other, "gateway.yaml"), chained("thiers"));
  t.match(await run(["check", "other/gateway.yaml"]), {
    status: 1,
    err: /unknown plugin "thiers", did you mean "theirs"/,
  });
  writeFileSync(join(other, "gateway.yaml"), chained("own"));
  t.match(await run(["check", "other/gateway.yaml"]), { status: 1, err: /unknown plugin "own"; known: theirs, / });
  writeFileSync(join(other, "gateway.yaml"), `${chained("np")}plugins: { np: { from: npm-plug } }\n`);
  const err = `there is no package npm-plug in node_modules of ${other} or of a folder above it`;
  t.match(await run(["check", "other/gateway.yaml"]), { status: 1, err });
});

t.test("the installed command starts the same program, also through a link and from elsewhere", async (t) => {
  const link = join(folder, "model-gateway");
  symlinkSync(join(ROOT, "bin/model-gateway"), link);
  t.match(spawned(["check"], link), { status: 0, out: /ok, 1 provider/ });
});

t.test("`npm start` and the installed command start Node with the same flags and memory", async (t) => {
  const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, "utf8")) as { scripts: { start: string } };
  const [, variable, flags] = /^exec env (\S+) node (.+) --import /.exec(scripts.start) ?? [];
  t.ok(flags);
  t.match(readFileSync(`${ROOT}bin/model-gateway`, "utf8"), `\nflags="${flags}"\nexport ${variable}\n`);
});

t.test(
  "output on a full disk is a sentence and exit code 1, also of help and of verbs that end their process",
  async (t) => {
    if (!existsSync("/dev/full")) return void t.comment("there is no /dev/full here");
    for (const args of [["help"], ["--version"], ["usage", "--help"], ["check", "--json"], ["routes"]]) {
      const full = openSync("/dev/full", "w");
      const { status, stderr } = spawnSync(process.execPath, [...LOADED, ...args], {
        ...{ cwd: folder, encoding: "utf8", env: { PATH: process.env["PATH"] } },
        stdio: ["ignore", full, "pipe"],
      });
      closeSync(full);
      t.equal(status, 1, args.join(" "));
      t.match(stderr, /^Standard output cannot be written: ENOSPC.*\.\n$/, args.join(" "));
    }
  },
);

t.test("what ran in this process leaves it as it was, for the files of tests that follow", async (t) => {
  t.same(signalHandlers(), handlersBefore);
});
