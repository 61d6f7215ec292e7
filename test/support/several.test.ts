import { execFile } from "node:child_process";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import t, { type Test } from "tap";
import type { Ran } from "./several.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const href = (name: string): string => new URL(name, import.meta.url).href;

/** Returns the results of files with these bodies, shared by several processes. */
async function shared(t: Test, bodies: Readonly<Record<string, string>>, processes: number): Promise<Ran[]> {
  const files = Object.entries(bodies).map(([name, body]) => [`${name}.ts`, `import t from "tap";\n${body}\n`]);
  const folder = relative(ROOT, t.testdir(Object.fromEntries(files)));
  const names = files.map(([name]) => `${folder}/${name}`);
  const script = `import { runShared } from ${JSON.stringify(href("several.ts"))};
    console.log(JSON.stringify(await runShared(${JSON.stringify(names)}, ${processes})));`;
  const args = ["--import", href("../../src/loader/register.js"), "--input-type=module-typescript", "-e", script];
  const env = Object.entries(process.env).filter(([name]) => !/^_?TAP|^NODE_OPTIONS$/.test(name));
  const options = { cwd: ROOT, env: Object.fromEntries(env) };
  return new Promise((resolve, reject) =>
    execFile(process.execPath, args, options, (error, output) =>
      error ? reject(error) : resolve(JSON.parse(output.replaceAll(`${folder}/`, "")) as Ran[]),
    ),
  );
}

const told = (all: readonly Ran[]): string[] =>
  all.flatMap(({ lines }) => lines.map((line) => line.split(",")[0] ?? ""));

t.test("files that several processes share run once each", async (t) => {
  const fine = 't.test("fine", async (t) => t.ok(true));';
  const all = await shared(t, { a: fine, b: fine, c: fine, d: fine, e: fine }, 2);
  t.same(
    told(all).sort(),
    ["a", "b", "c", "d", "e"].map((name) => `ok   ${name}.ts`),
  );
  t.equal(
    all.reduce((sum, { passed }) => sum + passed, 0),
    5,
  );
});

t.test("a process that has finished a file takes the next one, while another continues", async (t) => {
  const place = (name: string) => `new URL("${name}.ended", import.meta.url)`;
  const ends = (name: string) =>
    `import { writeFileSync } from "node:fs";
    t.test("ends", async (t) => { writeFileSync(${place(name)}, ""); t.ok(1); });`;
  const waits = `import { existsSync } from "node:fs";
    const all = [${["a", "b", "c"].map(place).join(", ")}];
    t.test("waits for the others", async (t) => {
      while (!all.every((each) => existsSync(each))) await new Promise((later) => setTimeout(later, 20));
      t.ok(1);
    });`;
  const all = await shared(t, { long: waits, a: ends("a"), b: ends("b"), c: ends("c") }, 2);
  const sizes = all.map(({ lines }) => lines.length);
  t.same(sizes.sort(), [1, 3]);
});

t.test("a file that ends its process fails, and those after it run all the same", async (t) => {
  const fine = 't.test("fine", async (t) => t.ok(true));';
  const ends = 't.test("ends", async () => process.kill(process.pid, "SIGKILL"));';
  const all = await shared(t, { a: fine, b: ends, c: fine }, 1);
  t.match(told(all), ["ok   a.ts", "FAIL b.ts has not run to its end", "ok   c.ts"]);
  t.equal(
    all.reduce((sum, { failed }) => sum + failed, 0),
    1,
  );
});
