import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { linksIn } from "./support/links.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PAGES = ["*.md", "{docs,examples,plugins,deploy,test}/**/*.md"];

t.test("every link of a page leads to a file", async (t) => {
  // What the bench installs has pages of its own.
  const pages = globSync(PAGES, { cwd: ROOT, exclude: ["**/node_modules/**"] });
  t.ok(pages.length > 20);
  const dead = pages.flatMap((page) =>
    linksIn(page, readFileSync(join(ROOT, page), "utf8"))
      .filter((target) => !existsSync(join(ROOT, target)))
      .map((target) => `${page}: ${target}`),
  );
  t.same(dead, []);
});

t.test("links are found in text, not in code, and those to the web are skipped", async (t) => {
  const page =
    "See [a](../a.md#part), [b](b.ts) and [c](https://c.test/x).\n```ts\nconst list = [d](e);\n```\n`[f](g)`";
  t.same(linksIn("docs/x.md", page), ["a.md", "docs/b.ts"]);
});
