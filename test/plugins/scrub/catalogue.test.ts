import t from "tap";
import { catalogue, marksIn } from "../../../plugins/scrub/catalogue.ts";
import { gathered } from "../../support/gathered.ts";
import { PROTOCOLS } from "./support.ts";

gathered(t, "a pattern stands once in its place, in a form that can match", async (t) => {
  const seen = new Set<string>();
  for (const { where, match, owner, native = [], only = [] } of catalogue) {
    for (const name of [...native, ...only]) t.ok(PROTOCOLS.includes(name), `${owner}: ${name} is a protocol`);
    for (const pattern of match) {
      const key = `${where} ${pattern}`;
      t.notOk(seen.has(key), `${key} occurs once`);
      seen.add(key);
      if (where.endsWith("header")) t.equal(pattern, pattern.toLowerCase(), `${key} is in lower case`);
      if (pattern.endsWith("*")) t.ok(pattern.length > 3, `${key} has three letters or more`);
    }
  }
});

t.test("a protocol's marks exclude its own fields and the allowed ones", async (t) => {
  const patterns = (protocol: string, ...allowed: string[]) =>
    marksIn(protocol, new Set(allowed))
      .filter(({ where }) => where === "body")
      .map(({ pattern }) => pattern);
  t.ok(patterns("openai-chat").includes("reasoning"));
  t.notOk(patterns("openai-responses").includes("reasoning"));
  t.ok(patterns("openai-chat").includes("preset"));
  t.notOk(patterns("openai-responses").includes("preset"), "a mark of some protocols only");
  t.notOk(patterns("openai-chat", "litellm_*").includes("litellm_*"));
});
