// biome-ignore-all lint/suspicious/noTemplateCurlyInString: ${NAME} is the notation of gateway.yaml
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { resolveReferences } from "../../src/config/references.ts";

const env = { NAME: "value", EMPTY: "", HOST: "example.org" };
const FORMS = `write $NAME, "$\{NAME}", "$\{NAME:-default}" or $file:/path`;

t.test("references to the environment are resolved", async (t) => {
  for (const [text, value] of [
    ["$NAME", "value"],
    ["${NAME}", "value"],
    ["${NAME:-other}", "value"],
    ["${GONE:-other}", "other"],
    ["${EMPTY:-other}", "other"],
    ["${GONE:-}", ""],
    ["https://${HOST}:${PORT:-443}/v1", "https://example.org:443/v1"],
    ["plain text", "plain text"],
    ["costs 5$", "costs 5$"],
  ] as const)
    t.same(resolveReferences(text, env, "/"), { value }, text);
});

t.test("a resolved value is never parsed as a reference or as YAML", async (t) => {
  const tricky = { NAME: "$OTHER: ${OTHER} # {" };
  t.same(resolveReferences("$NAME", tricky, "/"), { value: tricky.NAME });
  t.same(resolveReferences("${NAME}", tricky, "/"), { value: tricky.NAME });
});

t.test("a variable that is not set, or empty, is named", async (t) => {
  t.same(resolveReferences("$GONE", env, "/"), { unset: "GONE", why: "GONE is not set" });
  t.same(resolveReferences("$EMPTY", env, "/"), { unset: "EMPTY", why: "EMPTY is empty" });
  t.same(resolveReferences("https://${GONE}/v1", env, "/"), { unset: "GONE", why: "GONE is not set" });
  for (const text of ["$constructor", "${constructor}"])
    t.same(resolveReferences(text, env, "/"), { unset: "constructor", why: "constructor is not set" }, text);
});

t.test("a malformed reference is refused with the accepted forms, without repeating it", async (t) => {
  for (const text of ["$", "$1", "$NAME-x", "${NAME", "${1}", "a ${", "${}"])
    t.same(resolveReferences(text, env, "/"), { wrong: `not a reference to a secret; ${FORMS}` }, text);
});

t.test("a file's text is used without its last line end", async (t) => {
  const folder = t.testdir({ secret: "from a file\n", windows: "text\r\n", two: "a\nb\n", nothing: "\n" });
  t.same(resolveReferences("$file:secret", {}, folder), { value: "from a file" });
  t.same(resolveReferences(`$file:${join(folder, "windows")}`, {}, "/"), { value: "text" });
  t.same(resolveReferences("$file:two", {}, folder), { value: "a\nb" });
  t.same(resolveReferences("$file:nothing", {}, folder), {
    wrong: `the file of $file:${join(folder, "nothing")} is empty`,
  });
});

t.test("a file that cannot be read is named with the reason", async (t) => {
  const folder = t.testdir({ below: {} });
  t.same(resolveReferences("$file:gone", {}, folder), {
    wrong: `there is no file at $file:${join(folder, "gone")}; put the secret there, or write another path`,
  });
  t.same(resolveReferences("$file:below", {}, folder), {
    wrong: `cannot read (EISDIR) $file:${join(folder, "below")}`,
  });
  writeFileSync(join(folder, "late"), "now");
  t.same(resolveReferences("$file:late", {}, folder), { value: "now" });
});
