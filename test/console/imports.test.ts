import t from "tap";
import { transitiveImports } from "../../src/console/imports.ts";

const SCRIPTS: Record<string, string> = {
  "console/app.js": `/** From "./nothing.js". */\nimport { html } from "../common/ui.js";\nimport "./side.js";\nimport("./later.js");\nconst from = "./text.js";`,
  "console/side.js": `import {\n  one,\n  two,\n} from "../lib/one.js";`,
  "common/ui.js": `export { html } from "../lib/one.js";\nimport { taken } from "./first.js";`,
  "common/first.js": `import { again } from "./ui.js";`,
  "lib/one.js": "export const one = 1;",
};
const textOf = (name: string): string => {
  const text = SCRIPTS[name];
  if (text === undefined) throw new Error(name);
  return text;
};

t.test("all imported scripts are found, once each, also in circular imports", async (t) => {
  t.same(transitiveImports(["console/app.js"], textOf), [
    "common/ui.js",
    "console/side.js",
    "lib/one.js",
    "common/first.js",
  ]);
  t.same(transitiveImports(["common/first.js", "common/ui.js"], textOf), ["lib/one.js"]);
  t.same(transitiveImports([], textOf), []);
});

t.test("a missing import is an error", async (t) => {
  t.throws(() => transitiveImports(["a.js"], (name) => (name === "a.js" ? 'import "./b.js";' : textOf(name))), /b\.js/);
});
