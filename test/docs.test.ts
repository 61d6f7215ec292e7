import { spawnSync } from "node:child_process";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { PAGES } from "../scripts/reference.ts";
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
});

t.test("the README is short, and llms.txt leads to every page", async (t) => {
  t.ok(text("README.md").split("\n").length < 200);
  t.match(
    text("README.md"),
    /^# model-gateway[\s\S]{0,900}## Two commands\n\n```\nnpm ci && npm start\nnpm ci && npm test\n```/,
  );
  for (const page of globSync("docs/*.md", { cwd: ROOT })) t.ok(text("llms.txt").includes(`(${page})`), page);
  t.ok(linksIn("README.md", text("README.md")).length > 10);
});

/** Verbs of pages, as they stand in code: `npm start -- VERB …`. */
const commandsIn = (page: string): string[] =>
  [...text(page).matchAll(/(?:npm start --|npx model-gateway) ([a-z]+(?: [^`\n|)]*)?)/g)].map(([, command = ""]) =>
    command.trim(),
  );

t.test("every command of the README and of the pages on clients and keys is understood", async (t) => {
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
  const commands = new Set(["README.md", "docs/clients.md", "docs/keys.md"].flatMap(commandsIn));
  t.ok(commands.size >= 10, [...commands].join("; "));
  for (const command of commands) {
    // What serves, writes or starts something else is tried by tests of its own; here it must be a verb with such options.
    const words = command
      .replace(/\s+#.*$/, "")
      .replace(/ -- .*$/, "")
      .replace(/\\$/, "")
      .split(/\s+/)
      .filter(Boolean);
    const [verb = ""] = words;
    const dry = ["run", "init"].includes(verb) || /…|FILE|NAME|DATE|VERB/.test(command);
    const args = dry ? [verb === "VERB" ? "help" : verb, "--help"] : words.map((word) => word.replaceAll("'", ""));
    const { status, stdout, stderr } = run(args);
    t.ok(status === 0 || (verb === "doctor" && status === 1), `${args.join(" ")}: ${stdout}${stderr}`);
    for (const [, option = ""] of dry ? command.matchAll(/(--[a-z-]+)/g) : [])
      t.ok(stdout.includes(option), `${verb} has ${option}`);
  }
});
