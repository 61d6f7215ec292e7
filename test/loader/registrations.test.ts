import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t, { type Test } from "tap";
import { loadPlugin } from "../../src/loader/discover.ts";
import type { LoadedPlugin } from "../../src/loader/instances.ts";
import { registrationProblems } from "../../src/loader/registrations.ts";
import { folder } from "./folder.ts";

const IMPORTS = 'import { container, injectable, registry, singleton } from "tsyringe";\n';
const plugin = (more: string) => `${IMPORTS}${more}\nexport default class P { access() {} }\n`;

/** Loads the plugins among the files, and returns what is said of them. */
async function problemsOf(t: Test, files: Record<string, string>, names = Object.keys(files)) {
  const place = folder(t, files);
  const load = async (name: string): Promise<LoadedPlugin> => {
    const file = join(place, name);
    return { file, Class: await loadPlugin(file) };
  };
  const all: LoadedPlugin[] = [];
  for (const name of names) all.push(await load(name));
  const told = () => registrationProblems(all).map(({ file, message }) => [file.slice(place.length + 1), message]);
  return { place, load, told };
}

t.test("two plugins that register the same token are reported, in whatever way they do", async (t) => {
  for (const [name, first, second] of [
    [
      "text",
      'container.register("clock", { useValue: 1 });',
      '@registry([{ token: "clock", useValue: 2 }]) class R {}',
    ],
    [
      "symbol",
      'container.register(Symbol.for("s"), { useValue: 1 });',
      'container.registerInstance(Symbol.for("s"), 2);',
    ],
    ["class", "container.registerSingleton(Date);", "container.registerInstance(Date, new Date());"],
  ] as const) {
    const { told } = await problemsOf(t, { "a.ts": plugin(first), "b.ts": plugin(second) });
    const [[file, message] = [], ...more] = told();
    t.equal(file, "b.ts", name);
    t.match(
      message,
      /it registers the token ("clock"|Symbol\(s\)|Date) of tsyringe, as \/.*\/a\.ts does: .* Use another/,
    );
    t.same(more, []);
  }
});

t.test("a service in a file that both import, and tokens of one plugin, are in order", async (t) => {
  const files = {
    "service.ts": `${IMPORTS}@singleton() export class Service {}\ncontainer.register("service", { useToken: Service });\n`,
    "a.ts": plugin('import { Service } from "./service.ts"; export { Service };'),
    "b.ts": plugin('import { Service } from "./service.ts"; export { Service };'),
    "c.ts": plugin('container.register("rule", { useValue: 1 }); container.register("rule", { useValue: 2 });'),
  };
  const { told } = await problemsOf(t, files, ["a.ts", "b.ts", "c.ts", "c.ts"]);
  t.same(told(), []);
});

t.test("what only an earlier version of a plugin registered does not count", async (t) => {
  const files = {
    "a.ts": plugin('container.register("moved", { useValue: 1 });'),
    "b.ts": plugin('container.register("moved", { useValue: 2 });'),
  };
  const { place, load, told } = await problemsOf(t, files);
  t.equal(told().length, 1);
  writeFileSync(join(place, "a.ts"), plugin(""));
  await load("a.ts");
  t.same(told(), []);
});
