import { spawn } from "node:child_process";
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { parse } from "yaml";
import { PAGES } from "../scripts/reference.ts";
import { compileGlob } from "../src/core/glob.ts";
import { runHere } from "./support/command-line.ts";
import { linksIn } from "./support/links.ts";
import { listen } from "./support/listen.ts";
import { until } from "./support/until.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const text = (file: string): string => readFileSync(join(ROOT, file), "utf8");

t.test("generated pages are up to date: npm run docs", async (t) => {
  // What llms.txt says of each page changes with the page's first sentence; that it leads there is looked at below.
  for (const [file, made] of Object.entries(PAGES))
    if (file !== "llms.txt") t.ok(text(file) === made(), `${file} is current`);
  t.match(text("docs/configuration.md"), /^\| `providers\.NAME\.credential` \|/m);
  t.match(text("docs/configuration.md"), /^\| `retry\.attempts` \| `1` \|/m);
  t.match(text("docs/metrics.md"), /^\| `gateway_requests_total` \| counter \| `api` `model` /m);
  t.match(text("docs/errors.md"), /^\| `model_not_found` \| 404 \|/m);
  t.match(text("docs/plugin-api.md"), /^### Redactor\n\n[^#]*```ts\nclass Redactor \{[^#]* text\(text: string/m);
  t.match(text("docs/plugin-api.md"), /^class Query \{/m, "what plugins read and change of a request");
  t.notMatch(text("docs/plugin-api.md"), /^ +private /m);
});

t.test(
  "the pages of the plugin API declare every type of the gateway that they use, or note that they omit it",
  async (t) => {
    const types = new Set(
      globSync("src/**/*.ts", { cwd: ROOT }).flatMap((file) =>
        [...text(file).matchAll(/^(?:export )?(?:abstract )?(?:class|interface|type) (\w+)/gm)].map(
          ([, name = ""]) => name,
        ),
      ),
    );
    const declared = new Set<string>();
    for (const page of ["docs/plugin-api.md", "docs/protocol-api.md"]) {
      const [declarations = "", notShown = ""] = text(page).split("## Not shown");
      const fences = declarations.match(/^```ts$[\s\S]*?^```$/gm) ?? [];
      const code = fences.join("\n").replaceAll(/\/\*\*[\s\S]*?\*\/|"[^"\n]*"/g, "");
      for (const [, name = ""] of code.matchAll(/^(?:abstract )?(?:class|interface|type) (\w+)/gm)) declared.add(name);
      const omitted = new Set([...notShown.matchAll(/`(\w+)`/g)].map(([, name]) => name));
      const used = new Set([...code.matchAll(/(?<![.\w])[A-Z]\w+/g)].map(([name]) => name));
      t.ok(used.size > 50, `${used.size} names`);
      t.same(
        [...used].filter((name) => types.has(name) && !declared.has(name) && !omitted.has(name)),
        [],
        page,
      );
    }
  },
);

t.test("the README is short, and llms.txt links to every page", async (t) => {
  t.ok(text("README.md").split("\n").length < 200);
  t.match(
    text("README.md"),
    /^# model-gateway[\s\S]{0,900}## Two commands\n\n```\nnpm ci --omit=dev && npm start\nnpm ci && npm test\n```/,
  );
  const list = (page: string) => [...page.matchAll(/^- (\[[^\]]*\]\(([^)]*)\))/gm)];
  const listed = list(text("llms.txt"));
  const linksOf = (found: typeof listed) => found.map(([, link]) => link);
  t.same(
    linksOf(listed),
    linksOf(list(PAGES["llms.txt"]?.() ?? "")),
    "llms.txt has the links that npm run docs generates",
  );
  t.same(
    listed.map(([, , file = ""]) => file).filter((file) => file.startsWith("docs/")),
    globSync("docs/*.md", { cwd: ROOT }).sort(),
  );
  for (const [, , file = ""] of listed) t.ok(existsSync(join(ROOT, file)), `${file} exists`);
  t.ok(linksIn("README.md", text("README.md")).length > 10);
});

t.test("defaults of tests that a page mentions are the actual ones", async (t) => {
  let found = 0;
  for (const row of text("docs/reliability.md").matchAll(/^\|.*`(test\/[\w/.-]+\.ts)`.*\|$/gm))
    for (const [, name = "", said] of row[0].matchAll(/`(GATEWAY_TEST_\w+)` \((\d+)\)/g)) {
      found++;
      const taken = new RegExp(`"${name}"\\] \\?\\? ([\\d_]+)`).exec(text(row[1] as string))?.[1];
      t.equal(taken, said, `${name} of ${row[1]}`);
    }
  t.ok(found >= 2, `${found} were found`);
});

/** What begins a command, and not a setting, a path or a word of code. */
const PROGRAM =
  /^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:npm|npx|node|node_modules\/\S+|pnpm|bun|yarn|go|gh|jq|curl|docker|helm|kubectl|systemctl|systemd-\w+|nginx|pg_\w+|psql|openssl|apt-get|git|kill|redis-cli|rm)\b \S/;

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

const READMES = globSync(["examples/*.md", "plugins/**/*.md", "test/*/*.md"], { cwd: ROOT });
const COMMANDS = new Set(
  ["README.md", "CONTRIBUTING.md", ...globSync("docs/*.md", { cwd: ROOT }), ...READMES].flatMap(commandsIn),
);
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
  [
    /^npm install --global --prefix \/opt\/model-gateway /,
    "it installs where systemd's unit looks, as root; run by hand",
  ],
  [/^npm version X\.Y\.Z|^git tag/, "it makes a release"],
  [
    /^docker |^systemctl |^kubectl |^helm /,
    "it needs a container engine or systemd: test/deploy.test.ts checks what they are given",
  ],
  [/^(?:pnpm|bun|yarn) add (?:model-gateway@file:)?FILE$/, "npm run release:check -- --managers does"],
  [/^gh attestation verify /, "only a release of GitHub's has provenance"],
  [
    /^systemd-analyze (?:security|verify)$|^go install helm\.sh\/helm\/v3\/cmd\/helm@v[\d.]+$/,
    "test/deploy.test.ts runs systemd's, and helm where one is named to it",
  ],
  [
    /^jq -cR 'fromjson\? \| select\(\.journal\) \| \.journal' LOG > /,
    "jq's own: test/life/full-disk.test.ts puts the lines back",
  ],
  [/^apt-get install /, "it changes the machine"],
  [/^kill -(?:9|HUP)$/, "signals: test/life/killed.test.ts, test/cli/signals.test.ts"],
  [/^(?:pg_(?:dump|restore)|psql)\b/, "they need PostgreSQL: test/store/postgres/maintenance.test.ts"],
  [/^npm start -- store import /, "it needs PostgreSQL: test/store/postgres/import.test.ts"],
  [
    /^(?:node_modules\/\.bin\/)?node (?:--import \.\/src\/loader\/register\.js )?test\/bench\/\w+\.ts/,
    "it measures for minutes; that the file is there is looked at below",
  ],
  [/^node --import model-gateway\/register --test$/, "test/packed.test.ts does, in a folder with a plugin"],
];

t.test("every command of the pages is a verb, a script or a package, or is excluded for a reason", async (t) => {
  const { scripts, peerDependencies, devDependencies } = JSON.parse(text("package.json")) as Record<
    string,
    Record<string, string>
  >;
  const known = { ...devDependencies, ...peerDependencies };
  t.ok(COMMANDS.size >= 40, `${COMMANDS.size} were found`);
  for (const command of COMMANDS) {
    const script = /^npm run (\S+)/.exec(command)?.[1];
    if (script) t.ok(scripts?.[script], `${command}: the script exists`);
    for (const [file] of command.matchAll(/\btest\/\S+\.ts\b/g))
      t.ok(existsSync(join(ROOT, file)), `${command}: the file`);
    for (const [, name = "", version] of command.matchAll(/(?<=^npm i .*)(?<= )((?:@\w+\/)?[\w-]+)(?:@(\S+))?/g))
      t.ok(
        known[name] !== undefined && (version === undefined || version === known[name]),
        `${command}: ${name} is the tested version`,
      );
    const tried = VERB.test(command) || command.startsWith("npm i ");
    t.ok(tried || ASIDE.some(([form]) => form.test(command)), `${command}: is run, or is excluded for a reason`);
  }
  for (const [form] of ASIDE)
    t.ok(
      [...COMMANDS].some((command) => form.test(command)),
      `${form}: the command exists`,
    );
});

/** What stands in a command for what whoever reads it puts in, and what is put in here. */
const PLACEHOLDERS: readonly (readonly [RegExp, string])[] = [
  [/\bNAME\b/, "made-here"],
  [/(?<=plugin test )FILE\b/, "test/made-here.test.ts"],
  [/\bFILE\b/, "a-file"],
  [/gw_…/, "gw_abcdefghij_klmnopqrstuvwxyz0123456789"],
];
/** Verbs that end with 1 where they find something: no lookup of names here, an invoice that the ledger knows nothing of. */
const FINDS = ["doctor", "reconcile"];
/** Words behind which nothing of the command is ours, a client's program and a form without a verb. */
const ELSEWHERE = / -- .*$/;

t.test("every verb that a page names works as written there", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-docs-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const env = { PATH: "", HOME: folder };
  const posted: string[] = [];
  const webhook = createServer((request, reply) => {
    request.on("data", (bytes: Buffer) => posted.push(bytes.toString())).on("end", () => reply.end("ok"));
  });
  const port = await listen(t, webhook);
  writeFileSync(
    join(folder, "gateway.yaml"),
    `listen: 127.0.0.1:0
admin: unix:./admin.sock
linger: off
warm_up: off
alerts: { webhook: "http://127.0.0.1:${port}/hook" }
providers: { demo: { url: "demo:" }, openai: { url: "demo:" } }
models: { fast: { targets: [demo:echo] }, echo: { targets: [demo:echo] }, claude-1: { targets: [demo:echo] } }
`,
  );
  writeFileSync(
    join(folder, "invoice.csv"),
    "date,model,requests,input_tokens,output_tokens,amount\n2026-11-01,gpt-5.6,1,10,5,0.01\n",
  );
  const serving = async (args: readonly string[]) => {
    const program = ["--import", `${ROOT}src/loader/register.js`, `${ROOT}src/main.ts`, ...args];
    const child = spawn(process.execPath, program, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    const told = { text: "" };
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (text: string) => (told.text += text));
    const ended = new Promise<number | null>((done) => child.once("close", done));
    t.teardown(() => child.kill("SIGKILL"));
    await until(() => /listens on http/.test(told.text) || child.exitCode !== null, "a gateway");
    return { child, told, ended };
  };
  const ours = [...COMMANDS].filter((command) => VERB.test(command) && !ASIDE.some(([form]) => form.test(command)));
  const commands = ours.map((command) => command.replace(VERB, ""));
  t.ok(commands.length >= 15, commands.join("; "));
  for (const command of commands) {
    const filled = PLACEHOLDERS.reduce(
      (text, [form, value]) => text.replace(form, value),
      command
        .replace(/\s+#.*$/, "")
        .replace(ELSEWHERE, "")
        .replace(/\\$/, ""),
    );
    const args = filled
      .split(/\s+/)
      .filter(Boolean)
      .map((word) => word.replaceAll("'", ""));
    const [verb = ""] = args;
    if (verb === "run") {
      const { child, told, ended } = await serving(args);
      child.kill("SIGTERM");
      t.equal(await ended, 0, `${filled}: ${told.text}`);
      continue;
    }
    const gateway = verb === "reload" ? await serving(["run"]) : undefined;
    // A file is written where there is none; a form that names no verb stands for each.
    const { status, out, err } = await runHere(
      verb === "VERB" ? ["help"] : args,
      verb === "init" ? mkdtempSync(join(folder, "empty-")) : folder,
      env,
    );
    t.ok(status === 0 || (FINDS.includes(verb) && status === 1), `${filled} ended with ${status}: ${out}${err}`);
    gateway?.child.kill("SIGTERM");
    await gateway?.ended;
  }
  t.match(posted, [/test/i], "the alert was posted");
  t.ok(existsSync(join(folder, "a-file")), "the backup was written");
  t.equal(globSync("empty-*/gateway.yaml", { cwd: folder }).length, 2, "init has written its files");
});

t.test("models in the example of keys create are models of the gateway.yaml here", async (t) => {
  const [, list = ""] = /keys create search [^\n]*--models '([^']+)'/.exec(text("docs/keys.md")) ?? [];
  const config = parse(text("gateway.yaml")) as { models: Record<string, unknown> };
  const names = Object.keys(config.models);
  for (const pattern of list.split(","))
    t.ok(
      names.some((name) => compileGlob(pattern).test(name)),
      `${pattern} matches a model`,
    );
});
