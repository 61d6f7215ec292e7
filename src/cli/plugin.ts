import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { argumentsOf, COMMAND, Misuse, type Terminal } from "./verb.ts";

/** The lines of the overall help. */
export const help = `plugin new NAME | list        write a plugin with its test, or show those that there are`;

/** What `--help` behind the verb prints. */
export const USAGE = `usage: ${COMMAND} plugin new NAME
       ${COMMAND} plugin list [--json]

  new    writes plugins/NAME.ts, a plugin that puts a header on every answer, and test/NAME.test.mjs, which starts a gateway
         with it and asks that: node --test test/NAME.test.mjs
  list   shows the plugins of this folder and those that came along

docs/plugins.md says what a plugin can do.`;

/** The verb `plugin`. Answers the exit code. @param names of the plugins that there are @throws Misuse */
export async function run(args: readonly string[], io: Terminal, names: readonly string[]): Promise<number> {
  const { values, positionals } = argumentsOf(args, { json: { type: "boolean" } }, 2);
  const [word, name] = positionals;
  if (word === "list" && name === undefined) {
    if (values.json) io.out(JSON.stringify(names));
    else for (const each of names) io.out(each);
    return 0;
  }
  if (word !== "new" || name === undefined || values.json) throw new Misuse("plugin needs: new NAME, or list.");
  if (!/^[a-z][a-z0-9-]*$/.test(name))
    throw new Misuse(`"${name}" is no name for a plugin: small letters, digits and -.`);
  if (names.includes(name)) {
    io.err(`there is a plugin "${name}" already.`);
    return 1;
  }
  const files = [join(io.folder, "plugins", `${name}.ts`), join(io.folder, "test", `${name}.test.mjs`)] as const;
  const taken = files.find((file) => existsSync(file));
  if (taken) {
    io.err(`${relative(io.folder, taken)} exists.`);
    return 1;
  }
  for (const file of files) mkdirSync(dirname(file), { recursive: true });
  writeFileSync(files[0], pluginText(name));
  writeFileSync(files[1], testText(name));
  io.out(`wrote ${files.map((file) => relative(io.folder, file)).join(" and ")}

test it:    node --test ${relative(io.folder, files[1])}
use it:     chains: { llm: [sse, auth, scrub, models, limits, ${name}, rewrite, usage] }
configure:  plugins: { ${name}: { text: hello } }`);
  return 0;
}

const classOf = (name: string): string =>
  name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());

const pluginText = (
  name: string,
): string => `import { type Head, Options, type Plugin, type ResponseExchange } from "model-gateway";
import { inject, injectable } from "tsyringe";
import { z } from "zod";

/** Puts a header on every answer. */
@injectable()
export default class ${classOf(name)} implements Plugin {
  static options = z.strictObject({ text: z.string().default("hello").describe("What the header says.") });

  constructor(@inject(Options) private readonly options: z.infer<typeof ${classOf(name)}.options>) {}

  response(_exchange: ResponseExchange, head: Head) {
    head.headers.set("x-${name}", this.options.text);
  }
}
`;

/** The command's file: what a test starts, wherever the gateway stands. */
const COMMAND_FILE = new URL("../../bin/model-gateway", import.meta.url).pathname;

const testText = (name: string): string => `// node --test test/${name}.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

const KEY = "test-key-0123456789abcdef";
const plugin = fileURLToPath(new URL("../plugins/${name}.ts", import.meta.url));
const installed = fileURLToPath(new URL("../node_modules/.bin/model-gateway", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "${name}-"));
let gateway;
let address;

before(async () => {
  // The built-in provider answers: no vendor is asked.
  writeFileSync(
    join(folder, "gateway.yaml"),
    \`listen: 127.0.0.1:0
admin: off
warm_up: off
providers: { demo: { url: "demo:" } }
models: { echo: { targets: [demo:echo] } }
plugins: { ${name}: { from: \${JSON.stringify(plugin)}, text: tested } }
chains: { llm: [sse, auth, scrub, models, limits, ${name}, rewrite, usage] }
keys: { test: { key: \${KEY} } }
\`,
  );
  gateway = spawn(existsSync(installed) ? installed : ${JSON.stringify(COMMAND_FILE)}, ["run"], { cwd: folder });
  address = await new Promise((done, failed) => {
    let told = "";
    for (const stream of [gateway.stdout, gateway.stderr])
      stream.on("data", (text) => {
        told += text;
        const found = /listens on (\\S+)/.exec(told);
        if (found) done(found[1]);
      });
    gateway.on("exit", () => failed(new Error(told)));
  });
});

after(() => {
  gateway.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("every answer has the header", async () => {
  const answer = await fetch(\`\${address}/v1/chat/completions\`, {
    method: "POST",
    headers: { authorization: \`Bearer \${KEY}\`, "content-type": "application/json" },
    body: JSON.stringify({ model: "echo", messages: [{ role: "user", content: "Hello" }] }),
  });
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("x-${name}"), "tested");
});
`;
