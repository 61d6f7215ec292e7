import { spawnSync } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { PAGES } from "../scripts/reference.ts";
import { REFUSALS } from "../src/core/errors.ts";
import { linksIn } from "./support/links.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");

t.test("pages that are made from sources are as these are now: npm run docs", async (t) => {
  // What llms.txt says of each page changes with the page's first sentence; that it leads there is looked at below.
  for (const [file, made] of Object.entries(PAGES))
    if (file !== "llms.txt") t.ok(text(file) === made(), `${file} is current`);
  t.match(text("docs/configuration.md"), /^\| `providers\.NAME\.credential` \|/m);
  t.match(text("docs/configuration.md"), /^\| `retry\.attempts` \| `1` \|/m);
  t.match(text("docs/metrics.md"), /^\| `gateway_requests_total` \| counter \| `api` `model` /m);
  t.match(text("docs/errors.md"), /^\| `model_not_found` \| 404 \|/m);
  t.match(text("docs/plugin-api.md"), /^### Redactor\n\n[^#]*```ts\nclass Redactor \{[^#]* text\(text: string/m);
  t.notMatch(text("docs/plugin-api.md"), /^ +private /m);
});

t.test("the README is short, and llms.txt leads to every page", async (t) => {
  t.ok(text("README.md").split("\n").length < 200);
  t.match(
    text("README.md"),
    /^# model-gateway[\s\S]{0,900}## Two commands\n\n```\nnpm ci --omit=dev && npm start\nnpm ci && npm test\n```/,
  );
  for (const page of globSync("docs/*.md", { cwd: ROOT })) t.ok(text("llms.txt").includes(`(${page})`), page);
  t.ok(linksIn("README.md", text("README.md")).length > 10);
});

/** What begins a command, and not a setting, a path or a word of code. */
const PROGRAM =
  /^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:npm|npx|node|node_modules\/\S+|curl|docker|helm|kubectl|systemctl|nginx|pg_\w+|psql|openssl|apt-get|git|kill|redis-cli|rm)\b \S/;

/** Commands of a page: lines of its fences without a language or for a shell, and what stands in code among its sentences. */
function commandsIn(page: string): string[] {
  const fenced: string[] = [];
  const rest = text(page).replaceAll(/^```(\w*)\n([\s\S]*?)^```/gm, (_, language: string, code: string) => {
    if (["", "sh", "bash"].includes(language)) fenced.push(...code.replaceAll(/\\\n\s*/g, " ").split("\n"));
    return "";
  });
  const inline = [...rest.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code.replaceAll(/\s+/g, " "));
  const lines = [...fenced, ...inline].map((line) =>
    line
      .trim()
      .replace(/^\$ /, "")
      .replace(/\s+# .*$/, ""),
  );
  return lines.filter((line) => PROGRAM.test(line)).flatMap((line) => line.split(" && "));
}

const COMMANDS = new Set(["README.md", "CONTRIBUTING.md", ...globSync("docs/*.md", { cwd: ROOT })].flatMap(commandsIn));
const VERB = /^(?:npm start --|npx model-gateway) (?=[a-zV])/;

/** Commands that are not run here, and why. */
const ASIDE: readonly (readonly [RegExp, string])[] = [
  [
    /^npm (?:ci(?: --omit=dev)?|test)$|^GATEWAY_TEST_AGENTS_BEHIND=all npm run full$|^rm -rf node_modules$|^npm run (?:full|unit|bench|fuzz|release:check|typecheck|format)\b/,
    "CI does, with this test in it, or it is long",
  ],
  [/^npm run pretest$/, "npm test begins with it"],
  [/^npm start$|^npx model-gateway$/, "it serves: test/life/, test/packed.test.ts"],
  [
    /^npm run (?:docs|schema)$/,
    "it writes into the sources; that nothing would change is looked at above and in test/config/schema.test.ts",
  ],
  [
    /^npm install \.\/model-gateway-\S+\.tgz$|^npm pack$|^npm init -y$|^npm pkg set type=module$/,
    "test/packed.test.ts and release:check do",
  ],
  [
    /^npx tap test\/\S+$|^GATEWAY_TEST_(?:INSTALL=1 npx tap test\/packed|IMAGE=model-gateway npx tap test\/image)\.test\.ts$/,
    "a test is running; that the file is there is looked at below",
  ],
  [/^npm version X\.Y\.Z|^git tag/, "it makes a release"],
  [
    /^docker |^systemctl |^kubectl |^helm /,
    "it needs a container engine or systemd: test/deploy.test.ts checks what they are given",
  ],
  [/^kill -(?:9|HUP)$/, "signals: test/life/killed.test.ts, test/cli/signals.test.ts"],
  [/^pg_(?:dump|restore)\b/, "PostgreSQL's own"],
  [
    /^(?:node_modules\/\.bin\/)?node (?:--import \.\/src\/loader\/register\.js )?test\/bench\/\w+\.ts/,
    "it measures for minutes; that the file is there is looked at below",
  ],
  [/^node --import model-gateway\/register --test$/, "test/packed.test.ts does, in a folder with a plugin"],
];

t.test("every command of the pages is a verb, a script or a package, or is left to others for a reason", async (t) => {
  const { scripts, peerDependencies, devDependencies } = JSON.parse(text("package.json")) as Record<
    string,
    Record<string, string>
  >;
  const known = { ...devDependencies, ...peerDependencies };
  t.ok(COMMANDS.size >= 40, `${COMMANDS.size} were found`);
  for (const command of COMMANDS) {
    const script = /^npm run (\S+)/.exec(command)?.[1];
    if (script) t.ok(scripts?.[script], `${command}: there is such a script`);
    for (const [file] of command.matchAll(/\btest\/\S+\.ts\b/g))
      t.ok(existsSync(join(ROOT, file)), `${command}: the file`);
    for (const [, name = "", version] of command.matchAll(/(?<=^npm i .*)(?<= )((?:@\w+\/)?[\w-]+)(?:@(\S+))?/g))
      t.ok(
        known[name] !== undefined && (version === undefined || version === known[name]),
        `${command}: ${name} is what is tested with`,
      );
    const tried = VERB.test(command) || command.startsWith("npm i ");
    t.ok(tried || ASIDE.some(([form]) => form.test(command)), `${command}: is run, or there is a reason why not`);
  }
  for (const [form] of ASIDE)
    t.ok(
      [...COMMANDS].some((command) => form.test(command)),
      `${form}: there is such a command`,
    );
});

t.test("every verb that a page names is understood as it is written there", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-docs-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(
    join(folder, "gateway.yaml"),
    'listen: 127.0.0.1:0\nadmin: off\nproviders: { demo: { url: "demo:" } }\nmodels: { fast: { targets: [demo:echo] }, echo: { targets: [demo:echo] }, smart-1: { targets: [demo:echo] } }\n',
  );
  const run = (args: string[]) =>
    spawnSync(process.execPath, ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`, ...args], {
      cwd: folder,
      encoding: "utf8",
      env: { PATH: "", HOME: folder },
      timeout: 60_000,
    });
  const commands = [...COMMANDS].filter((command) => VERB.test(command)).map((command) => command.replace(VERB, ""));
  t.ok(commands.length >= 15, commands.join("; "));
  for (const command of commands) {
    // What serves, writes or starts something else is tried by tests of its own; here it must be a verb with such options.
    const words = command
      .replace(/\s+#.*$/, "")
      .replace(/ -- .*$/, "")
      .replace(/\\$/, "")
      .split(/\s+/)
      .filter(Boolean);
    const [verb = ""] = words;
    const dry =
      ["run", "init", "reload"].includes(verb) ||
      /…|FILE|NAME|DATE|VERB|invoice\.csv|alerts test|migrate/.test(command);
    const args = dry ? [verb === "VERB" ? "help" : verb, "--help"] : words.map((word) => word.replaceAll("'", ""));
    const { status, stdout, stderr } = run(args);
    t.ok(status === 0 || (verb === "doctor" && status === 1), `${args.join(" ")}: ${stdout}${stderr}`);
    for (const [, option = ""] of dry ? command.matchAll(/(--[a-z-]+)/g) : [])
      t.ok(stdout.includes(option), `${verb} has ${option}`);
  }
});

t.test("the life of a request has each of the gateway's codes at the step where it leaves with it", async (t) => {
  const page = text("docs/architecture.md");
  const [table = ""] = /^\| step \| codes \|[\s\S]*?\n\n/m.exec(page) ?? [];
  const codes = table
    .split("\n")
    .flatMap((line) => [...(line.split("|")[2] ?? "").matchAll(/`(\w+)`/g)].map(([, code]) => code));
  t.same(codes.toSorted(), Object.keys(REFUSALS).sort(), "each once");
});
