import t from "tap";
import { compileGlob, matchesAny } from "../../src/core/glob.ts";
import { runLinear } from "../support/linear-work.ts";

t.test("a star matches any text, everything else itself", async (t) => {
  const glob = compileGlob("gpt-*.mini");
  for (const name of ["gpt-5.mini", "gpt-.mini", "gpt-a\nb.mini"]) t.ok(glob.test(name), name);
  for (const name of ["gpt-5-mini", "GPT-5.mini", "x-gpt-5.mini", "gpt-5.mini2"]) t.notOk(glob.test(name), name);
  t.ok(compileGlob("a+b(c)[d]?").test("a+b(c)[d]?"));
});

t.test("a text is matched against names and patterns", async (t) => {
  t.ok(matchesAny(["fast", "smart"], "smart"));
  t.ok(matchesAny(["fast", "s*t"], "smart"));
  t.notOk(matchesAny(["fast", "s*t"], "smarter"));
  t.notOk(matchesAny([], "smart"));
  t.ok(matchesAny(["a*"], "a*"), "one that has a star in it too");
});

t.test("patterns beyond the cache's size work as before", async (t) => {
  for (let i = 0; i < 10_050; i++) if (!matchesAny([`x${i}*`], `x${i}y`)) t.fail(`${i}`);
  t.ok(matchesAny(["x0*"], "x0z"));
});

t.test("texts between stars are found in order, wherever they stand", async (t) => {
  const glob = compileGlob("/a/*/b/*/c/**/d");
  for (const text of ["/a/1/b/2/c/3/d", "/a/1/b/b/b/c/c/d/d", "/a//b//c//d"]) t.ok(glob.test(text), text);
  for (const text of ["/a/1/c/2/b/3/d", "/a/b/c/d", "/a/1/b/2/c/3/d/e"]) t.notOk(glob.test(text), text);
});

t.test("a long text that fits several stars in many ways is refused in linear time", async (t) => {
  const glob = compileGlob("/threads/*/runs/*/steps/*/runs/*/steps/*/files");
  runLinear(() => t.notOk(glob.test(`/threads/${"runs/steps/".repeat(2000)}`)));
});
