import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isScalar, isSeq, parseDocument } from "yaml";
import { DEFAULT_CHAINS } from "../config/schema.ts";
import { fileProblem } from "../core/file-problem.ts";
import { makeFolder } from "../store/make-folder.ts";
import { UsageError } from "../text/format-error.ts";
import { COMMAND, parseVerbArguments, type Terminal, wrongCommand } from "./verb.ts";

/** Runs the verb `plugin`. Returns the exit code. @param names those of existing plugins @throws UsageError */
export async function runPlugin(args: readonly string[], io: Terminal, names: readonly string[]): Promise<number> {
  if (args[0] === "test") return runTests(args.slice(1), io);
  const { values, positionals } = parseVerbArguments(args, { json: { type: "boolean" } }, 2);
  const [word, name] = positionals;
  const { json = false } = values;
  if (word !== "list" && word !== "new") throw wrongCommand("plugin", word, ["new", "test", "list"]);
  if (word === "new") return writePlugin(name, io, names, json);
  if (name !== undefined) throw new UsageError("plugin list takes no names.");
  if (json) io.out(JSON.stringify(names));
  else for (const each of names) io.out(each);
  return 0;
}

/** Writes the files of a new plugin and its test. Returns the exit code: 1 if there is one of that name. @throws UsageError */
function writePlugin(name: string | undefined, io: Terminal, names: readonly string[], json: boolean): number {
  if (name === undefined) throw new UsageError("plugin new takes one name.");
  if (!/^[a-z][a-z0-9-]*$/.test(name))
    throw new UsageError(`"${name}" cannot be a plugin's name: use lower-case letters, digits and -.`);
  if (IMPORTED.has(className(name)))
    throw new UsageError(
      `"${name}" cannot be a plugin's name: its class would be called ${className(name)}, which it imports.`,
    );
  if (names.includes(name)) {
    io.err(`there is a plugin "${name}" already: choose another name.`);
    return 1;
  }
  const files = [join(io.folder, "plugins", `${name}.ts`), join(io.folder, "test", `${name}.test.ts`)] as const;
  const taken = files.find((file) => existsSync(file));
  if (taken) {
    io.err(`${relative(io.folder, taken)} exists: choose another name, or move it away.`);
    return 1;
  }
  try {
    for (const file of files) makeFolder(dirname(file), 0o777);
    writeFileSync(files[0], pluginText(name));
    writeFileSync(files[1], testText(name));
  } catch (thrown) {
    io.err(`cannot write a plugin in ${io.folder}: ${fileProblem(thrown, "folder")}`);
    return 1;
  }
  if (json) {
    io.out(JSON.stringify({ name, files }));
    return 0;
  }
  const [plugin, test] = files.map((file) => relative(io.folder, file));
  io.out(`wrote ${plugin} and ${test}

test it:    ${COMMAND} plugin test ${test}
use it:     chains: { llm: [${chainWith(name, io.folder).join(", ")}] }
configure:  plugins: { ${name}: { text: hello } }`);
  return 0;
}

/** Returns the chain of this folder's gateway.yaml, or the default one, with a plugin added before `rewrite`. */
function chainWith(name: string, folder: string): string[] {
  const file = join(folder, "gateway.yaml");
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const own = parseDocument(text, { logLevel: "silent" }).getIn(["chains", "llm"]);
  const names = isSeq(own) ? own.items.map((each) => (isScalar(each) ? String(each.value) : "")) : [];
  const chain = names.length > 0 && names.every(Boolean) ? names : (DEFAULT_CHAINS["llm"] ?? []);
  const at = chain.indexOf("rewrite");
  return chain.toSpliced(at < 0 ? chain.length : at, 0, name);
}

const className = (name: string): string =>
  name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

/** What the file of a new plugin imports: its class cannot have the same name. */
const IMPORTED: ReadonlySet<string> = new Set(["Head", "Options", "Plugin", "ResponseExchange"]);

const pluginText = (
  name: string,
): string => `import { type Head, Options, type Plugin, type ResponseExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Puts a header on every answer. */
@injectable()
export default class ${className(name)} implements Plugin {
  static options = z.strictObject({ text: z.string().default("hello").describe("Value of the header.") });

  constructor(@inject(Options) private readonly options: z.infer<typeof ${className(name)}.options>) {}

  response(_exchange: ResponseExchange, head: Head) {
    head.headers.set("x-${name}", this.options.text);
  }
}
`;

const testText = (name: string): string => `import assert from "node:assert/strict";
import { after, test } from "node:test";
import { drive } from "model-gateway/testing";
import ${className(name)} from "../plugins/${name}.ts";

const driven = await drive(${className(name)}, { options: { text: "tested" } });
after(() => driven.close());

for (const protocol of driven.protocols)
  for (const stream of [false, true])
    test(\`\${protocol}, \${stream ? "streamed" : "whole"}: the answer has the header\`, async () => {
      const answer = await driven.ask({ protocol, stream, text: "Hello" }, "Good morning");
      assert.equal(answer.status, 200);
      assert.equal(answer.text, "Good morning");
      assert.equal(answer.headers["x-${name}"], "tested");
    });
`;

/** The module that makes Node load plugins and tests written in TypeScript. */
const REGISTER = new URL("../loader/register.js", import.meta.url).href;

/** The folder of the gateway itself; in a checkout it has hundreds of tests, which need another runner. */
const GATEWAY_FOLDER = resolve(fileURLToPath(new URL("../..", import.meta.url)));

/** Runs tests in a child process. Returns the exit code: 0, or 1 if one failed. @throws UsageError */
function runTests(args: readonly string[], io: Terminal): number {
  const dashes = args.indexOf("--");
  const [files, more] = dashes < 0 ? [args, []] : [args.slice(0, dashes), args.slice(dashes + 1)];
  const option = files.find((file) => file.startsWith("-"));
  if (option !== undefined) throw new UsageError(`Options of node --test follow --: plugin test -- ${option}`);
  if (files.length === 0 && resolve(io.folder) === GATEWAY_FOLDER)
    throw new UsageError("This folder has the gateway's own tests, too (npm test): name your plugin's test file.");
  const found = files.length > 0 ? files : globSync("test/**/*.test.{ts,mts,js,mjs}", { cwd: io.folder });
  if (found.length === 0)
    throw new UsageError("There is no test/*.test.ts in this folder: plugin new NAME writes one.");
  const gone = found.find((file) => !existsSync(join(io.folder, file)));
  if (gone !== undefined) throw new UsageError(`There is no file ${gone}.`);
  const folder = found.find((file) => statSync(join(io.folder, file)).isDirectory());
  if (folder !== undefined) throw new UsageError(`${folder} is a folder; name the files in it.`);
  const run = spawnSync(process.execPath, ["--import", REGISTER, "--test", ...more, ...found.toSorted()], {
    cwd: io.folder,
    env: io.env,
    stdio: "inherit",
  });
  return run.status === 0 ? 0 : 1;
}
