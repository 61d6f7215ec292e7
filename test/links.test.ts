import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import t from "tap";
import { headingLinksIn, headingsIn, linksIn } from "./support/links.ts";

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

t.test("every link to a heading leads to one", async (t) => {
  const read = (page: string): string => readFileSync(join(ROOT, page), "utf8");
  const pages = globSync(PAGES, { cwd: ROOT, exclude: ["**/node_modules/**"] });
  const links = pages.flatMap((page) => headingLinksIn(page, read(page)).map((link) => ({ from: page, ...link })));
  t.ok(links.length > 10);
  const dead = links.filter(({ page, heading }) => page.endsWith(".md") && !headingsIn(read(page)).includes(heading));
  t.same(dead, []);
});

t.test("headings are reached by their words in small letters, without punctuation", async (t) => {
  t.same(headingsIn("# Start, stop: `all` cores\n```\n# no heading\n```\n## 2. What?\n"), [
    "start-stop-all-cores",
    "2-what",
  ]);
  t.same(headingLinksIn("docs/x.md", "[a](../a.md#one) [b](#two) [c](https://c.test/#three)"), [
    { page: "a.md", heading: "one" },
    { page: "docs/x.md", heading: "two" },
  ]);
});

t.test("links are found in text, not in code, and those to the web are skipped", async (t) => {
  const page =
    "See [a](../a.md#part), [b](b.ts) and [c](https://c.test/x).\n```ts\nconst list = [d](e);\n```\n`[f](g)`";
  t.same(linksIn("docs/x.md", page), ["a.md", "docs/b.ts"]);
});
