import { join } from "node:path";
import t, { type Test } from "tap";
import { Marketplace } from "../../src/core/marketplace.ts";
import { Protocols } from "../../src/core/protocols.ts";
import { loadPlugin } from "../../src/loader/discover.ts";
import { closePlugin, makePlugin, startPlugin } from "../../src/loader/instances.ts";
import type { PluginError, PluginProblem } from "../../src/loader/problems.ts";
import { Envelopes } from "../../src/translation/envelope.ts";
import { Translations } from "../../src/translation/translations.ts";
import { containerWith } from "../support/container.ts";
import { MemoryLog } from "../support/gateway.ts";
import { folder } from "./folder.ts";

const marketplace = new Marketplace([]);
const translations = new Translations(new Protocols([]), new Envelopes(), marketplace);
const container = containerWith(new MemoryLog(), { marketplace, translations });

const IMPORTS =
  'import { inject, injectable } from "tsyringe";\nimport { Log, Options } from "model-gateway"; import { Keys, type Ledger } from "model-gateway/store";\n';

/** What is said of a plugin of that text, without the imports' two lines, after building, starting and closing it. */
async function problemsOf(t: Test, text: string): Promise<PluginProblem[]> {
  const file = join(folder(t, { "p.ts": IMPORTS + text }), "p.ts");
  try {
    const loaded = { file, Class: await loadPlugin(file) };
    const plugin = makePlugin(container, loaded, { a: 1 });
    await startPlugin(plugin, loaded, true);
    await closePlugin(plugin, loaded);
    return [];
  } catch (thrown) {
    t.equal((thrown as PluginError).name, "PluginError");
    const { problems } = thrown as PluginError;
    t.ok(problems.every((problem) => problem.file === file));
    return problems.map((problem) => ({ ...problem, ...(problem.line && { line: problem.line - 2 }) }));
  }
}

t.test(
  "a plugin gets its services and options, with and without a constructor, in TypeScript and JavaScript",
  async (t) => {
    t.same(
      await problemsOf(
        t,
        "@injectable() export default class P { constructor(readonly keys: Keys, readonly log: Log, @inject(Options) readonly options: { a: number }) { if (options.a !== 1) throw new Error(); } access() {} }",
      ),
      [],
    );
    t.same(await problemsOf(t, "export default class P { access() {} }"), []);
    const script = join(
      folder(t, {
        "p.mjs":
          'import { inject, injectable } from "tsyringe"; import { Options } from "model-gateway";\nexport default class P { constructor(options) { this.a = options.a; } access() {} }\ninject(Options)(P, undefined, 0); injectable()(P);',
      }),
      "p.mjs",
    );
    t.match(makePlugin(container, { file: script, Class: await loadPlugin(script) }, { a: 5 }), { a: 5 });
  },
);

t.test("each parameter that cannot be injected is named with its place and the fix", async (t) => {
  const found = await problemsOf(
    t,
    "@injectable()\nexport default class P {\n  constructor(\n    readonly keys: Keys,\n    readonly ledger: Ledger,\n    readonly name: string,\n  ) {}\n  access() {}\n}",
  );
  t.match(found, [
    { line: 5, column: 14, message: /class P cannot be built: parameter 2 \(ledger\).*not with `import type`/ },
    { line: 6, column: 14, message: /class P cannot be built: parameter 3 \(name\).*@inject\(Options\)/ },
  ]);
  t.equal(found.length, 2);
});

t.test("a missing @injectable is named, with and without another decorator", async (t) => {
  for (const parameter of ["keys: Keys", "@inject(Options) options: object"])
    t.match(
      await problemsOf(t, `export default class P {\n  constructor(${parameter}) {}\n  access() {}\n}`),
      [{ line: 1, message: 'class P is not @injectable(): write that above it, imported from "tsyringe"' }],
      parameter,
    );
});

t.test("an unknown class is named with those that the gateway has", async (t) => {
  t.match(
    await problemsOf(
      t,
      "class Clock { constructor(readonly zone: string) {} }\n@injectable()\nexport default class P {\n  constructor(readonly clock: Clock) {}\n  access() {}\n}",
    ),
    [
      {
        line: 4,
        column: 24,
        message:
          /parameter 1 \(clock\).*there are Health, KeptValues, Keys, Ledger, Levels, Limiter, Log, Marketplace, ObjectAccess, Redactor, Translations, and @inject/,
      },
    ],
  );
});

const BASE = "class Base { request() {} }\n";

t.test("a phase may be inherited, or a function in a field", async (t) => {
  t.same(await problemsOf(t, `${BASE}export default class P extends Base {}`), []);
  t.same(await problemsOf(t, "export default class P { request = () => {}; }"), []);
});

t.test("a class that implements no phase is refused, with the phase that was probably meant", async (t) => {
  t.match(await problemsOf(t, "\nexport default class P { respone() {} }"), [
    { line: 2, message: /^class P fills no phase: respone is no phase, did you mean response\?; phases are access, / },
  ]);
  t.match(await problemsOf(t, "export default class P { reqest = () => {}; }"), [
    { message: /did you mean request\?/ },
  ]);
  t.match(await problemsOf(t, "export default class P {}"), [{ message: /fills no phase: it has no methods;/ }]);
});

t.test("the place of options that a constructor or start rejects is reported beside the line", async (t) => {
  const file = join(
    folder(t, { "p.ts": 'export default class P {\n  start() { throw new Error("no such zone"); }\n}' }),
    "p.ts",
  );
  const loaded = { file, Class: await loadPlugin(file), place: "gateway.yaml:4:3" };
  await t.rejects(startPlugin(makePlugin(container, loaded, {}), loaded, true), {
    message: `${file}:2:19 error: start() of class P threw: no such zone; fix it or its options (gateway.yaml:4:3), or take it out of chains`,
  });
});

t.test("an exception of a constructor, start or close is reported with its line", async (t) => {
  t.match(
    await problemsOf(t, 'export default class P {\n  constructor() { throw new Error("no table"); }\n  access() {}\n}'),
    [{ line: 2, column: 25, message: "the constructor of class P threw: no table" }],
  );
  t.match(await problemsOf(t, 'export default class P {\n  async start() {\n    throw new Error("no road");\n  }\n}'), [
    { line: 3, message: "start() of class P threw: no road" },
  ]);
  t.match(await problemsOf(t, 'export default class {\n  close() { throw "a text"; }\n}'), [
    { message: "close() of class default threw: a text" },
  ]);
});

t.test("a plugin knows whether it is only validated", async (t) => {
  t.match(
    await problemsOf(
      t,
      "export default class P { start(how: { dry: boolean }) { throw new Error('dry ' + how.dry); } }",
    ),
    [{ message: /dry true/ }],
  );
});

t.test(
  "a start that does not end in time is refused with its file and class, and closed when it ends late",
  async (t) => {
    const file = join(folder(t, { "p.ts": "\nexport default class P {}" }), "p.ts");
    const [started, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    class P {
      start = () => started.promise;
      close = () => closed.resolve();
    }
    const loaded = { file, Class: P, place: "gateway.yaml:4:3" };
    await t.rejects(startPlugin(new P(), loaded, false, 20), {
      name: "PluginError",
      message: `${file}:2:1 error: start() of class P has not ended after 0.02 s; fix it or its options (gateway.yaml:4:3), or take it out of chains`,
    });
    started.resolve();
    await closed.promise;
  },
);
